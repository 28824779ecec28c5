// What the words of the page mean: each is explained where the mouse rests on it.
import { html } from "./vendor/htm-preact-3.1.1.js";

/** States of workers, readers, tasks and jobs. */
const STATES = {
  live: "Connected, and heard in the last three seconds",
  slow: "Makes less than half of what the median of the other workers makes with tasks of the same jobs",
  silent: "Connected, but not heard for more than three seconds",
  unreachable: "The dispatcher hears this worker, but some readers cannot connect to it",
  disconnected: "Its connection to the dispatcher is closed; it is lost when its lease ends",
  drains: "Leaves: it gets no new tasks and hands over what it has made",
  lost: "Died, or was silent for its whole lease; other workers take its tasks",
  died: "The training process ended without a goodbye, or was silent for its whole lease",
  left: "The training process closed its iterator",
  waits: "Its training loop waits for data for at least 5 % of its time",
  runs: "A worker makes its elements",
  "waits for a worker": "No worker has this task now",
  done: "All its elements were made and acknowledged",
  failed: "A function of the pipeline raised an error, so the job cannot continue",
  running: "It has readers and is not finished",
  "no reader": "Nobody reads this job now: it is kept for a while, and then forgotten",
  finished: "All its elements were acknowledged",
};

/** How a job is, in the table of jobs and above the first line. */
const GRADES = {
  Healthy: "Training loops wait for data for less than 5 % of their time",
  "Healthy, but": "Training does not wait for data, but readers died or elements were left out",
  Waiting: "Training loops wait for data for at least 5 % of their time",
  Stopped: "Training loops get no elements, or nothing current is known of them",
  Failed: STATES.failed,
  "Not known yet": "Training loops have not said yet how long they wait",
  "Needs attention": "Something is wrong that does not mend itself",
  Idle: "Nothing waits for data now",
};

/** Numbers: heads of tables, and names beside figures. */
const FIGURES = {
  job: "A named use of a dataset: readers that name the same job share its elements",
  task: "One stream of elements of a job, made by one worker at a time; numbered within its job",
  worker: "A process that makes elements and sends them to readers",
  workers: "Processes that make elements and send them to readers",
  reader: "The part of a training process that receives elements",
  readers: "Training processes that receive elements now",
  host: "The machine that the process runs on",
  state: "How it is now; rest the mouse on a state to read what it means",
  pass: "Which traversal of the job's dataset: usually an epoch",
  attempt: "How many workers have run this task so far, one after the other",
  "busy cores": "How many processor cores the workers' processes kept busy of late, of those that they may use",
  "CPU, busy cores": "How many processor cores its processes kept busy of late, of those that they may use",
  memory: "The memory of its processes; what they share counts once",
  "memory, MB": "The memory of its processes; what they share counts once",
  version: "Its version of Penstock",
  "running tasks": "Tasks whose elements are made now",
  assigned: "Tasks that it has, also those that are made and still read",
  "assigned tasks": "Tasks that it has, also those that are made and still read",
  tasks: "Tasks of this job: each is made by one worker at a time",
  "jobs running": "Jobs that are not finished and are read, or may be",
  "elements/s": "Elements a second",
  "steps/s": "Steps of training loops a second",
  "bytes/s": "Bytes a second from workers to readers",
  "MB/s": "Megabytes a second from workers to readers",
  "median of peers": "What the median of the other workers with tasks of the same jobs would make of as many tasks",
  buffered: "Bytes of made elements that wait at the worker, or are not acknowledged yet",
  "buffered, MB": "Made elements that wait at the worker, or are not acknowledged yet",
  "sent, MB": "What it sent to readers since it started",
  "silent, s": "Seconds since it was last heard",
  "silent for": "How long ago it was last heard",
  source: "A dataset of the mixture that the job reads",
  wanted: "Its share of the turns, by the weights that hold now",
  "handed out": "Its elements that tasks were given in this pass, and their share",
  passes: "How often all its elements were handed out in this pass of the job",
  "begins again at turn": "The turn at which its first element comes again",
  "remote files, MB": "Bytes that its runners read from object stores and web servers",
  requests: "Requests for bytes of remote files, second ones included",
  retries: "Requests that were repeated, because the store failed or asked for fewer requests",
  "hedged reads": "Second requests, sent because the first one was late; those that answered first won",
  "waited for storage": "How long its runners waited for bytes of remote files, all together",
  "file cache, MB": "Bytes of remote files on the disk of its host, for all workers there",
  "file cache hits": "The share of pieces of remote files that its runners found on that disk",
  "runners lost": "Its processes for users' code that ended without being asked",
  waits: "The share of its time that the training loop waits for data",
  "of late": "How much of its time the loop waited in the last minute",
  "for what": "What the training loop waits for, or what is wrong",
  produced: "Elements made so far",
  acked: "Elements that training loops acknowledged: they are never sent again",
  "acked in whole splits": "Elements of splits of which training loops acknowledged every element",
  consumed: "Elements handed to training loops, those that were handed out twice included",
  splits: "Units of input, such as files or ranges, that the task got",
  account: "Every element is counted where it is made, sent, acknowledged and consumed; the counts must agree",
  ready: "Elements that are made and wait for a reader",
  "held up": "The share of its time in which its buffer was full, because readers did not take elements",
  "without splits": "The share of its time in which it waited for the dispatcher to hand it input",
  "buffer full": "How full its buffer for made elements is",
  elements: "Different elements made so far",
  replayed: "Elements made again after a worker died or a task moved",
  sent: "Elements sent to readers, those that were sent again included",
  requeued: "Elements that were sent to a reader and given back, for another reader or after a loss",
  redelivered: "Elements handed to a training loop more than once",
  "in doubt": "Elements requeued that a reader which died may have used already",
  skipped: "Elements that a trainer of a cached job did not get",
  nondeterministic: "Elements that came out differently when they were made again",
  errors: "Elements left out because they raised an error (on_error=\"skip\")",
};

/** Words of the first line. */
const SENTENCES = {
  account: FIGURES.account,
  "does not balance": "Two counts of the same elements disagree: elements were lost or doubled, which must not happen",
  dispatcher: "The process that hands tasks to workers",
  worker: FIGURES.worker,
  workers: FIGURES.workers,
  reader: FIGURES.reader,
  readers: "The parts of training processes that receive elements",
  task: FIGURES.task,
  slot: "Room on a worker for one running task",
  slots: "Room on workers for one running task each",
  "not waiting for data": GRADES.Healthy,
  "waits": FIGURES.waits,
  journal: "The dispatcher's record on disk of what it decided; without room in it nothing is decided",
  consumer: "One of a fixed number of readers that get elements in step",
  round: "One element for each consumer",
};

export const meaningOf = (word) => STATES[word] ?? GRADES[word] ?? FIGURES[word];
/** What a state, which may end in a figure ("no reader for 4 s"), means. */
export const meaningOfState = (standing) => STATES[standing] ?? GRADES[standing];

/** A state, in its colour, with its meaning where the mouse rests on it. */
export const State = ({ tone, of, children }) => html`<span class=${tone ? `tone-${tone} term` : "term"} title=${meaningOfState(of)}>${children ?? of}</span>`;
/** The name of a figure, with its meaning. */
export const Name = ({ of }) => html`<span class=${FIGURES[of] ? "term" : ""} title=${FIGURES[of]}>${of}</span>`;
/** The head of a table. Names that begin with ">" are above figures. */
export const Heads = ({ names }) => html`<thead><tr>${names.filter(Boolean).map((name) => {
  const plain = name.replace(">", "");
  return html`<th key=${plain} scope="col" class=${name === plain ? "" : "right"} title=${FIGURES[plain]}>${plain}</th>`;
})}</tr></thead>`;

const FOUND = new RegExp(`\\b(${Object.keys(SENTENCES).sort((a, b) => b.length - a.length).join("|")})\\b`, "i");

/** A sentence in which the first use of each term has its meaning where the mouse rests on it. */
export function explained(text, seen = new Set()) {
  const parts = [];
  for (let rest = text ?? ""; rest;) {
    const found = FOUND.exec(rest);
    if (!found) return [...parts, rest];
    const [word] = found, term = word.toLowerCase();
    parts.push(rest.slice(0, found.index), seen.has(term) ? word : html`<abbr title=${SENTENCES[term]}>${word}</abbr>`);
    seen.add(term);
    rest = rest.slice(found.index + word.length);
  }
  return parts;
}
