// The parts of the page: the first line, jobs, a worker, a task, lists, the log.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact-3.1.1.js";
import { Chart, NO_COLUMNS, TimeTable } from "./chart.js";
import { MeshTable, Picture } from "./mesh.js";
import { explained, Heads, Name, State } from "./terms.js";
import { ago, busyCores, bytes, count, counted, MARKS, megabytes, nameOf, percent, place, rate, runningTasks, time, toneOf } from "./words.js";

const TONES = { good: ["●", "Healthy"], waits: ["◐", "Waiting"], bad: ["✕", "Needs attention"], idle: ["○", "Idle"] };
const GRADES = { failed: "Failed", stopped: "Stopped", waits: "Waiting", unknown: "Not known yet", noted: "Healthy, but", healthy: "Healthy" };
const RECENT = 300; // seconds that the charts of the first view show

export function Headline({ headline }) {
  const { tone, before, number, after, detail, iteration } = headline;
  const [sign, word] = TONES[tone];
  const seen = new Set();
  const sentence = html`${explained(before, seen)} <span class=${`tone-${tone}`}>${explained(number, seen)}</span>${after && explained(after.startsWith(",") ? after : ` ${after}`, seen)}`;
  return html`<section class="first" aria-labelledby="first">
    <p class=${`tone tone-${tone}`}><span aria-hidden="true">${sign}</span><${State} of=${word} /></p>
    <h1 id="first" tabindex="-1">${sentence}</h1>
    ${detail && html`<p class="told">${explained(detail, seen)}${iteration && html` <a href=${place.job(iteration)}>Look at this job</a>`}</p>`}
  </section>`;
}

/** Says the first line to a screen reader: when it becomes another one, not each second. */
export function Spoken({ headline }) {
  const said = useRef(["", 0]);
  const { tone, before, number, after } = headline;
  const figure = parseFloat(number) || 0;
  const key = `${tone} ${before} ${after}`;
  const [text, setText] = useState("");
  useEffect(() => {
    if (said.current[0] === key && Math.abs(figure - said.current[1]) < 10) return;
    said.current = [key, figure];
    setText(`${before} ${number} ${after}`);
  }, [key, figure]);
  return html`<p class="hidden" role="status" aria-live="polite">${text}</p>`;
}

export function Totals({ totals }) {
  const unwell = Object.entries(totals.standings).filter(([name]) => name !== "live").map(([name, n]) => `${count(n)} ${name}`).join(", ");
  const facts = [
    ["workers", count(totals.workers), unwell],
    ["busy cores", busyCores(totals.load)],
    ["jobs running", count(totals.running), totals.finished ? `${count(totals.finished)} finished` : ""],
    ["readers", count(totals.readers)],
    ["running tasks", runningTasks(totals.load), `${count(totals.load.assigned)} assigned`],
    ["elements/s", rate(totals.elements)],
    ["bytes/s", bytes(totals.nbytes)],
  ];
  return html`<dl class="totals">${facts.map(([name, value, more]) => html`<div key=${name}><dt><${Name} of=${name} /></dt><dd>${value}${more ? html` <small>${more}</small>` : ""}</dd></div>`)}</dl>`;
}

/** Return whether a table is chosen in the place of a picture, and the buttons that choose; *of* says of what. */
function useTable(of) {
  const [asTable, setAsTable] = useState(false);
  const choice = (label, table) => html`<button class="plain" aria-pressed=${asTable === table} onClick=${() => setAsTable(table)}>${label}</button>`;
  return [asTable, html`<span class="end choice" role="group" aria-label=${`How ${of} is shown`}>${choice("Picture", false)}${choice("Table", true)}</span>`];
}

export function Mesh({ mesh }) {
  const [asTable, choice] = useTable("the mesh");
  const empty = !mesh.workers.length && !mesh.jobs.length;
  return html`<section class="card" aria-labelledby="mesh">
    <header><h2 id="mesh">Mesh</h2>
      ${mesh.grouped.length > 0 && html`<span class="soft small">${mesh.grouped.join(" and ")} in groups; <a href=${place.workers("")}>list the workers</a></span>`}
      ${choice}</header>
    ${empty ? html`<p class="empty">No worker is registered. One joins with <code>penstock worker --dispatcher-address</code> and this address.</p>` : asTable ? html`<${MeshTable} mesh=${mesh} />` : html`<${Picture} mesh=${mesh} />`}
  </section>`;
}

function Operators({ operators }) {
  if (!operators.length) return null;
  return html`<div class="operators" role="list" aria-label="Operators by time">${operators.map((one, i) => html`
    <span class="label" role="listitem">${one.label}<span class="hidden">: works ${percent(one.worked)} of the time of its tasks</span></span>
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="8" /><rect class=${i ? "worked" : "worked most"} width=${Math.min(100, 100 * one.worked)} height="8" /></svg>
    <span class="share" aria-hidden="true">${percent(one.worked)}</span>`)}</div>`;
}

function Balance({ balance, finished }) {
  if (balance.faults.length) return html`<p class="balance bad" role="alert">The account does not balance: ${balance.faults.join("; ")}</p>`;
  const again = [[balance.redelivered, "redelivered"], [balance.requeued, "requeued"], [balance.replayed, "replayed"], [balance.skipped, "skipped"], [balance.errors, "left out for errors"]].filter(([n]) => n);
  return html`<p class="balance good">${finished ? html`<b>✓ The account balances: </b>` : "Account: "}${counted(balance.acked, "element")} acked, ${count(balance.consumed)} consumed${again.map(([n, word]) => `, ${count(n)} ${word}`).join("")}</p>`;
}

function stateOf(job) {
  const since = job.unread != null ? ` for ${count(job.unread)} s` : "";
  const grade = GRADES[job.grade];
  if (job.standing === "running" && grade) return html`<span class="state"><${State} tone=${toneOf(job.grade)} of=${grade} />${job.grade === "noted" && `: ${job.matter}`}</span>`;
  return html`<span class="state"><${State} tone=${toneOf(job.standing)} of=${job.standing}>${job.standing}${since}<//></span>`;
}

function recent(columns) {
  const first = columns.at[columns.at.length - 1] - RECENT;
  const from = columns.at.findIndex((at) => at >= first);
  return from <= 0 ? columns : Object.fromEntries(Object.entries(columns).map(([name, seen]) => [name, seen.slice(from)]));
}

export const marksOf = (notices, iteration) => notices.filter((one) => (one.iteration === iteration || (one.worker && !one.iteration) || one.kind === "restarted") && !["registered", "forgotten", "opened", "left", "joined"].includes(one.kind));

export function JobCard({ job, columns, notices, theme, compact, told }) {
  const finished = job.standing === "finished";
  const { sample, tasks } = job;
  const facts = [
    ["readers", count(job.readers)],
    ["tasks", `${count(tasks.running)} run${tasks.waiting ? `, ${count(tasks.waiting)} wait` : ""}${tasks.done ? `, ${count(tasks.done)} done` : ""}${tasks.failed ? `, ${count(tasks.failed)} failed` : ""}`],
    ...(sample ? [["steps/s", rate(sample.steps)], ["elements/s", rate(sample.elements)], ["bytes/s", bytes(sample.nbytes)]] : []),
  ];
  return html`<article class=${`card ${job.balance.faults.length ? "wrong" : ""}`} aria-labelledby=${`job-${job.iteration}`}>
    <header><h2 id=${`job-${job.iteration}`}><a href=${place.job(job.iteration)}>${nameOf(job)}</a></h2>${stateOf(job)}<span class="soft small end">pass ${job.repetition}, ${job.mode}</span></header>
    ${finished ? html`<${Balance} balance=${job.balance} finished />` : html`<div class=${compact ? "job compact" : "job"}><div class="told">
      ${!told && html`<p class="sentence">${job.sentence || "nothing is known of it yet"}</p>`}
      ${job.waiting_for && html`<p class="tone-waits">waits for ${job.waiting_for}</p>`}
      ${job.held_by && html`<p class="tone-waits">${job.held_by}</p>`}
      ${job.troubles.map((one) => html`<p class="tone-bad" key=${one}>${one}</p>`)}
      <dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt><${Name} of=${name} /></dt><dd>${value}</dd></div>`)}</dl>
      <${Operators} operators=${job.operators.slice(0, compact ? 2 : 5)} />
      <${Balance} balance=${job.balance} finished=${false} />
    </div><${Chart} kind="wait" columns=${recent(columns ?? NO_COLUMNS)} marks=${marksOf(notices, job.iteration)} theme=${theme} height=${compact ? 104 : 150} /></div>`}
  </article>`;
}

const SPARK = 60; // looks that the line of a job in the table shows

/** How much of its time a loop waited of late, as a small line; the figure beside it says it in words. */
function Spark({ columns }) {
  const waits = (columns?.wait ?? []).slice(-SPARK);
  if (waits.length < 2) return null;
  const points = waits.map((wait, i) => `${((100 * i) / (waits.length - 1)).toFixed(1)},${(19 - 18 * wait).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><polyline points=${points} /></svg>`;
}

/** Many jobs, a row for each, the worst first; those that are healthy are folded until they are asked for. */
export function JobTable({ jobs, lines }) {
  const [wanted, setWanted] = useState("");
  const [open, setOpen] = useState(false);
  const named = jobs.filter((job) => nameOf(job).toLowerCase().includes(wanted.trim().toLowerCase()));
  const healthy = named.filter((job) => job.grade === "healthy");
  const rows = open || wanted.trim() ? named : named.filter((job) => job.grade !== "healthy");
  return html`<section class="card" aria-labelledby="jobs"><header><h2 id="jobs">${counted(jobs.length, "job")}, the worst first</h2>
      <span class="end choice"><input type="search" placeholder="Filter by name" aria-label="Filter jobs by name" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      ${healthy.length > 0 && !wanted.trim() && html`<button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Fold" : "Show"} ${count(healthy.length)} healthy</button>`}</span></header>
    ${rows.length > 0 ? html`<div class="scroll"><table><${Heads} names=${["job", ">waits", "of late", "for what", ">steps/s", ">elements/s"]} /><tbody>
      ${rows.map((job) => html`<tr key=${job.iteration}><th scope="row"><a href=${place.job(job.iteration)}>${nameOf(job)}</a></th><td class=${`right number tone-${toneOf(job.grade)}`}>${["stopped", "unknown"].includes(job.grade) && !job.wait ? "–" : percent(job.wait)}</td><td><${Spark} columns=${lines[job.iteration]} /></td><td><${State} tone=${toneOf(job.grade)} of=${GRADES[job.grade] ?? job.grade} />${job.matter && `: ${job.matter}`}</td><td class="right">${job.sample ? rate(job.sample.steps) : "–"}</td><td class="right">${job.sample ? rate(job.sample.elements) : "–"}</td></tr>`)}</tbody></table></div>` : html`<p class="empty">${wanted.trim() ? "No job has this in its name." : `All ${count(healthy.length)} jobs are healthy: not waiting for data.`}</p>`}
  </section>`;
}

export function Finished({ jobs }) {
  if (!jobs.length) return null;
  return html`<section class="card" aria-labelledby="finished"><header><h2 id="finished">Finished</h2></header>
    <div class="scroll"><table><${Heads} names=${["job", ">pass", ">acked", ">consumed", "account"]} /><tbody>
    ${jobs.map((job) => html`<tr key=${job.iteration}><th scope="row"><a href=${place.job(job.iteration)}>${nameOf(job)}</a></th><td class="right">${count(job.repetition)}</td><td class="right">${count(job.balance.acked)}</td><td class="right">${count(job.balance.consumed)}</td><td>balances</td></tr>`)}
    </tbody></table></div></section>`;
}

/** Saves that a worker commits: how far each is. */
export function Saves({ saves }) {
  if (!saves.length) return null;
  return html`<section class="card" aria-labelledby="saves"><header><h2 id="saves">Saves</h2></header>
    <div class="scroll"><table><${Heads} names=${["folder", ">elements", ">of", ">elements/s", ">size", "worker"]} /><tbody>
    ${saves.map((one) => html`<tr key=${one.save_id}><th scope="row">${one.path}</th><td class="right">${count(one.elements)}</td><td class="right">${one.total == null ? "–" : count(one.total)}</td><td class="right">${rate(one.rate)}</td><td class="right">${bytes(one.nbytes)}</td><td>${one.worker ? html`<a href=${place.worker(one.worker)}>${one.worker}</a>` : "–"}</td></tr>`)}
    </tbody></table></div></section>`;
}

function linkOf(one) {
  if (one.task) return place.task(one.task);
  if (one.worker) return place.worker(one.worker);
  return one.iteration ? place.job(one.iteration) : null;
}

export function Log({ notices, title = "Log" }) {
  const newest = notices.slice(-200).reverse();
  return html`<section class="card" aria-labelledby="log"><header><h2 id="log">${title}</h2><span class="soft small end">newest first</span></header>
    ${newest.length ? html`<ol class="log" tabindex="0" aria-labelledby="log">${newest.map((one) => {
      const [sign, tone] = MARKS[one.kind];
      const href = linkOf(one);
      return html`<li key=${one.number + one.at}><time datetime=${new Date(1000 * one.at).toISOString()}>${time(one.at)}</time><i class=${`mark ${tone}`} aria-hidden="true">${sign}</i><span>${href ? html`<a href=${href}>${one.words}</a>` : one.words}</span></li>`;
    })}</ol>` : html`<p class="empty">No events since the dispatcher started.</p>`}
  </section>`;
}

/** Fetch JSON again and again while it is shown; null is not there, undefined not known yet. */
function usePolled(path, live) {
  const [seen, setSeen] = useState(undefined);
  useEffect(() => {
    let over = false, timer;
    const ask = async () => {
      try {
        const answer = await fetch(path, { headers: { accept: "application/json" } });
        if (!over) setSeen(answer.ok ? await answer.json() : answer.status === 404 ? null : undefined);
      } catch { /* the banner says that the dispatcher does not answer; what is shown stays */ }
      if (!over) timer = setTimeout(ask, 1000);
    };
    setSeen(undefined);
    ask();
    return () => { over = true; clearTimeout(timer); };
  }, [path, live]);
  return seen;
}

const Title = ({ kind, name, children }) => html`<section class="first"><p class="tone">${kind}</p><h1 id="first" tabindex="-1">${name}</h1>${children}</section>`;
const Gone = ({ kind, name }) => html`<${Title} kind=${kind} name=${name}><p class="told">There is none of this name now. It may be over, or gone; the log may say how.</p><//>`;

function TaskTable({ tasks, total, caption, withJob }) {
  return html`<div class="scroll"><table><caption>${caption}${total > tasks.length ? ` (${count(tasks.length)} of ${count(total)})` : ""}</caption>
    <${Heads} names=${["task", withJob && "job", "state", !withJob && "worker", ">attempt", ">produced", ">acked", ">splits", ">elements/s"]} />
    <tbody>${tasks.map((one) => html`<tr key=${one.task}><th scope="row"><a href=${place.task(one.task)} title=${`task ${one.task} of the dispatcher`}>task ${one.number}</a></th>${withJob && html`<td><a href=${place.job(one.iteration)}>${one.job}</a></td>`}<td><${State} tone=${toneOf(one.standing)} of=${one.standing} /></td>${!withJob && html`<td>${one.worker && html`<a href=${place.worker(one.worker)}>${one.worker}</a>`}</td>`}<td class="right">${count(one.attempt)}</td><td class="right">${count(one.head)}</td><td class="right">${count(one.acked)}</td><td class="right">${count(one.splits)}</td><td class="right">${rate(one.rate)}</td></tr>`)}</tbody></table>
    ${!tasks.length && html`<p class="empty">none</p>`}</div>`;
}

function TimeLine({ columns, marks, theme }) {
  const [asTable, choice] = useTable("the time line");
  return html`<section class="card" aria-labelledby="times">
    <header><h2 id="times">Time line</h2><span class="soft small">${asTable ? "newest first" : "dashed lines: saves, faults, drains, a restarted dispatcher (⟳)"}</span>${choice}</header>
    ${asTable ? html`<${TimeTable} columns=${columns} />` : html`<div class="stack">${["wait", "elements", "nbytes", "steps"].map((kind) => html`<${Chart} key=${kind} kind=${kind} columns=${columns} marks=${marks} theme=${theme} height=${kind === "wait" ? 150 : 90} />`)}</div>`}
  </section>`;
}

const partOf = (n, all) => (all ? `${count(n)} (${percent(n / all)})` : count(n));

function Mixture({ mixture }) {
  const handed = mixture.sources.reduce((sum, one) => sum + one.handed, 0), acked = mixture.sources.reduce((sum, one) => sum + one.acked, 0);
  return html`<section class="card"><div class="scroll"><table><caption>Mixture: tasks have the turns before ${count(mixture.turn)}</caption>
    <${Heads} names=${["source", ">wanted", ">handed out", ">acked in whole splits", ">passes", ">begins again at turn"]} />
    <tbody>${mixture.sources.map((one) => html`<tr key=${one.name}><th scope="row">${one.name}</th><td class="right">${percent(one.wanted)}</td><td class="right">${partOf(one.handed, handed)}</td><td class="right">${partOf(one.acked, acked)}</td><td class="right">${count(one.passes)}</td><td class="right">${one.repeats_at == null ? "–" : count(one.repeats_at)}</td></tr>`)}</tbody></table>
    ${mixture.spans.length > 1 && html`<table><caption>Wanted / handed out, from each change of the weights to the next</caption>
    <thead><tr><th scope="col" class="right" title="The turn from which these weights hold">from turn</th>${mixture.sources.map((one) => html`<th scope="col" class="right" key=${one.name} title="The share by the weights / the share of the elements that tasks were given">${one.name}</th>`)}</tr></thead>
    <tbody>${mixture.spans.map((span) => { const all = span.handed.reduce((sum, n) => sum + n, 0); return html`<tr key=${span.begin}><th scope="row" class="right">${count(span.begin)}</th>${span.wanted.map((share, i) => html`<td class="right" key=${i}>${percent(share)} / ${all ? percent(span.handed[i] / all) : "–"}</td>`)}</tr>`; })}</tbody></table>`}</div></section>`;
}

export function JobPage({ job, columns, notices, theme, live }) {
  const tasks = usePolled(`api/page?tasks=${job.iteration}`, live), readers = usePolled(`api/page?readers=${job.iteration}`, live);
  const rows = Object.entries(job.balance).filter(([name]) => name !== "faults");
  const running = job.standing !== "finished";
  return html`
    <${Title} kind=${html`job, pass ${job.repetition}, ${job.mode}: <${State} of=${job.standing} />`} name=${nameOf(job)}>
      <p class="told sentence">${job.sentence}</p>${job.slowest && html`<p class="told small">${job.slowest}</p>`}
      ${job.waiting_for && html`<p class="tone-waits">waits for ${job.waiting_for}</p>`}
      ${job.troubles.map((one) => html`<p class="tone-bad" key=${one}>${one}</p>`)}
      ${!job.private && job.outline && html`<p class="told small">${job.outline}</p>`}<//>
    <div class="columns"><div class="stack">
      ${running && html`<${TimeLine} columns=${columns ?? NO_COLUMNS} marks=${marksOf(notices, job.iteration)} theme=${theme} />`}
      ${job.operators.length > 0 && html`<section class="card" aria-labelledby="ops"><header><h2 id="ops">Operators by time</h2></header><${Operators} operators=${job.operators} /></section>`}
      ${job.figures.length > 0 && html`<section class="card" aria-labelledby="made"><header><h2 id="made">Made by operators</h2></header>${job.figures.map((one) => html`<p class="told small" key=${one}>${one}</p>`)}</section>`}
      ${running && job.mixtures.map((one, i) => html`<${Mixture} key=${i} mixture=${one} />`)}
      ${running && html`<section class="card"><${TaskTable} tasks=${tasks?.tasks ?? []} total=${tasks?.total ?? 0} caption="Tasks that are not done" /></section>`}
      <section class="card"><div class="scroll"><table><caption>Readers</caption><${Heads} names=${["reader", "state", ">waits", ">steps/s", ">consumed", ">MB/s"]} /><tbody>
        ${(readers?.readers ?? []).map((one) => html`<tr key=${one.reader}><th scope="row">${one.label}</th><td><${State} tone=${toneOf(one.standing)} of=${one.standing} /></td><td class="right">${["live", "waits"].includes(one.standing) ? percent(one.wait) : "–"}</td><td class="right">${rate(one.steps)}</td><td class="right">${count(one.consumed)}</td><td class="right">${megabytes(one.nbytes)}</td></tr>`)}</tbody></table></div></section>
    </div><div class="stack">
      <section class=${`card ${job.balance.faults.length ? "wrong" : ""}`} aria-labelledby="account"><header><h2 id="account">Account</h2></header><${Balance} balance=${job.balance} finished=${!running} />
        <table><tbody>${rows.map(([name, n]) => html`<tr key=${name}><th scope="row"><${Name} of=${name.replace("_", " ")} /></th><td class="right">${count(n)}</td></tr>`)}</tbody></table></section>
      <${Log} notices=${notices.filter((one) => one.iteration === job.iteration || one.kind === "restarted")} title="Log of this job" />
    </div></div>`;
}

const hitRate = ({ cache_hits: hits, cache_misses: misses }) => hits / Math.max(1, hits + misses);

const ofStorage = (read) => [
  ["remote files, MB", megabytes(read.nbytes)], ["requests", count(read.requests)], ["retries", count(read.retries)],
  ["hedged reads", `${count(read.hedges)}, ${count(read.hedges_won)} won`], ["waited for storage", `${count(read.wait_seconds)} s`],
];

export function WorkerPage({ address, notices, live }) {
  const seen = usePolled(`api/page?worker=${encodeURIComponent(address)}`, live);
  const log = html`<${Log} notices=${notices.filter((one) => one.worker === address || one.kind === "restarted")} title="Log of this worker" />`;
  if (seen === null) return html`<${Gone} kind="worker" name=${address} />${log}`;
  if (!seen) return html`<${Title} kind="worker" name=${address} />`;
  const { worker, stats } = seen;
  const facts = [
    ["busy cores", busyCores(worker.load)], ["running tasks", runningTasks(worker.load)], ["assigned tasks", count(worker.load.assigned)], ["elements/s", rate(worker.rate)], ["produced", count(stats?.elements_made ?? 0)],
    ["buffered, MB", megabytes(worker.buffered)], ["sent, MB", megabytes(stats?.bytes_sent ?? 0)], ["runners lost", count(stats?.runners_lost ?? 0)],
    ...(stats?.storage?.requests ? ofStorage(stats.storage) : []),
    ...(stats?.file_cache ? [["file cache, MB", megabytes(stats.file_cache.held)], ["file cache hits", percent(hitRate(stats.storage))]] : []),
    ["silent for", `${worker.silent} s`], ["memory, MB", worker.memory == null ? "–" : megabytes(worker.memory)], ["version", worker.version || "–"],
  ];
  return html`<${Title} kind=${html`worker: <${State} tone=${toneOf(worker.standing)} of=${worker.standing} />`} name=${address}>
      <p class="told small">host ${seen.host || "unknown"}${seen.tags.length > 0 && `, tags ${seen.tags.join(", ")}`}, read by ${seen.transports.join(", ") || "grpc"}, incarnation ${seen.incarnation}${seen.unreachable > 0 && `, unreachable for ${counted(seen.unreachable, "reader")}`}</p><//>
    <dl class="totals">${facts.map(([name, value]) => html`<div key=${name}><dt><${Name} of=${name} /></dt><dd>${value}</dd></div>`)}</dl>
    <div class="columns"><div class="stack">
      <section class="card"><${TaskTable} tasks=${seen.tasks} total=${worker.tasks} caption="Tasks" withJob /></section>
      ${seen.operators.length > 0 && html`<section class="card" aria-labelledby="ops"><header><h2 id="ops">Operators by time</h2></header><${Operators} operators=${seen.operators} /></section>`}
    </div><div class="stack">${log}</div></div>`;
}

export function TaskPage({ task, notices, live }) {
  const seen = usePolled(`api/page?task=${task}`, live);
  const log = html`<${Log} notices=${notices.filter((one) => one.task === task || one.kind === "restarted")} title="Log of this task" />`;
  if (seen === null) return html`<${Gone} kind="task" name="A task that is over" />${log}`;
  if (!seen) return html`<${Title} kind="task" name="task" />`;
  const one = seen.task;
  const facts = [
    ["attempt", count(one.attempt)], ["produced", count(one.head)], ["acked", count(one.acked)], ["elements/s", rate(one.rate)], ["splits", count(one.splits)],
    ["ready", count(seen.ready)], ["held up", percent(seen.held_up)], ["without splits", percent(seen.starved)],
    ["buffer full", seen.room ? percent(seen.nbytes / seen.room) : "–"],
  ];
  return html`<${Title} kind=${html`task: <${State} tone=${toneOf(one.standing)} of=${one.standing} />`} name=${html`<span title=${`task ${task} of the dispatcher`}>task ${one.number}</span>`}>
      <p class="told">of <a href=${place.job(one.iteration)}>${one.job}</a>${one.worker && html`, on <a href=${place.worker(one.worker)}>${one.worker}</a>`}${seen.compression && `, compression ${seen.compression}`}</p>
      ${one.failure && html`<p class="tone-bad">${one.failure}</p>`}<//>
    <dl class="totals">${facts.map(([name, value]) => html`<div key=${name}><dt><${Name} of=${name} /></dt><dd>${value}</dd></div>`)}</dl>
    <div class="columns"><div class="stack">${seen.operators.length > 0 && html`<section class="card" aria-labelledby="ops"><header><h2 id="ops">Operators by time</h2></header><${Operators} operators=${seen.operators} /></section>`}</div><div class="stack">${log}</div></div>`;
}

export function WorkersPage({ group, totals, live }) {
  const seen = usePolled(`api/page?workers=${encodeURIComponent(group)}`, live);
  const rows = seen?.workers ?? [];
  return html`<${Title} kind="workers" name=${group || "All workers"}><p class="told">${counted(seen?.total ?? 0, "worker")} of ${count(totals.workers)}${seen && seen.total > rows.length ? `; the first ${count(rows.length)} are listed, penstock status --json has all` : ""}</p><//>
    <section class="card"><div class="scroll"><table><${Heads} names=${["worker", "state", "host", ">CPU, busy cores", ">memory", "version", ">elements/s", ">median of peers", ">running tasks", ">assigned", ">buffered", ">silent, s"]} /><tbody>
      ${rows.map((one) => html`<tr key=${one.address}><th scope="row"><a href=${place.worker(one.address)}>${one.address}</a></th><td><${State} tone=${toneOf(one.standing)} of=${one.standing}>${one.standing === "lost" ? `lost ${ago(one.silent)}` : one.standing}<//></td><td>${one.host || "–"}</td><td class="right">${busyCores(one.load)}</td><td class="right">${one.memory == null ? "–" : bytes(one.memory)}</td><td>${one.version || "–"}</td><td class="right">${rate(one.rate)}</td><td class="right">${one.median == null ? "–" : rate(one.median)}</td><td class="right">${runningTasks(one.load)}</td><td class="right">${count(one.load.assigned)}</td><td class="right">${bytes(one.buffered)}</td><td class="right">${one.silent}</td></tr>`)}</tbody></table></div></section>`;
}
