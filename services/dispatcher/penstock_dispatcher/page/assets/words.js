// Numbers and times as people read them.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const count = (n) => grouped.format(n);
export const percent = (share) => `${grouped.format(100 * share)} %`;
export const rate = (n) => (n > 0 && n < 10 ? tenths.format(n) : grouped.format(n));
export const megabytes = (n) => tenths.format(n / 1e6);
/** Bytes with the unit that fits: 62.6 MB, 7.2 kB. */
export function bytes(n) {
  const [unit, size] = n >= 1e9 ? ["GB", 1e9] : n >= 1e6 || n === 0 ? ["MB", 1e6] : ["kB", 1e3];
  return `${tenths.format(n / size)} ${unit}`;
}
export const time = (seconds) => clock.format(new Date(1000 * seconds));
const unknown = (n, say) => (n == null ? "–" : say(n));
/** Of the load of workers: how many of their cores are busy, and how many of their tasks run. */
export const busyCores = (load) => unknown(load.busy, (busy) => `${rate(busy)}${load.cores == null ? "" : ` of ${count(load.cores)}`}`);
export const runningTasks = (load) => unknown(load.running, count);
/** How long ago: 40 s ago, 2 min ago. */
export const ago = (seconds) => (seconds < 60 ? `${count(seconds)} s ago` : `${count(seconds / 60)} min ago`);
export const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** Cut a label in its middle: what tells apart is often at its ends. */
export function fitting(text, letters) {
  if (text.length <= letters) return text;
  const tail = Math.floor((letters - 1) / 2);
  return `${text.slice(0, letters - 1 - tail)}…${text.slice(-tail)}`;
}

/** Return labels without the end that all of them have, from a separator on; of one label, itself. */
export function apart(labels) {
  if (labels.length < 2) return labels;
  const parts = labels.map((label) => label.split(/(?=[.:,])/));
  let same = 0;
  const ends = (i) => new Set(parts.map((part) => part[part.length - 1 - i]));
  while (parts.every((part) => part.length > same + 1) && ends(same).size === 1) same += 1;
  return parts.map((part) => part.slice(0, part.length - same).join(""));
}

export const nameOf = (job) => (job.private && job.outline ? job.outline : job.job);

const TONES = {
  live: "good", running: "good", runs: "good", waits: "waits", drains: "waits", silent: "waits",
  "waits for a worker": "waits", healthy: "good", noted: "waits", stopped: "bad", unknown: "idle", unreachable: "waits", "no reader": "idle", finished: "idle",
  done: "idle", left: "idle", died: "bad", disconnected: "bad", failed: "bad", lost: "bad", slow: "waits",
};
/** Which colour a state has; each state is said in words, too. */
export const toneOf = (standing) => TONES[standing] ?? "idle";

export const MARKS = {
  lost: ["✕", "bad"], failed: ["✕", "bad"], unbalanced: ["✕", "bad"], "save failed": ["✕", "bad"],
  requeued: ["↺", "waits"], moved: ["→", "waits"], drain: ["▽", "waits"],
  save: ["◆", "good"], joined: ["+", ""], left: ["−", ""], opened: ["▸", ""], finished: ["■", ""],
  forgotten: ["·", ""], registered: ["·", ""], started: ["▸", ""], restarted: ["⟳", "waits"],
};

export const place = {
  job: (iteration) => `#/job/${iteration}`,
  task: (task) => `#/task/${task}`,
  worker: (address) => `#/worker/${encodeURIComponent(address)}`,
  workers: (group) => (group ? `#/workers/${encodeURIComponent(group)}` : "#/workers"),
};
