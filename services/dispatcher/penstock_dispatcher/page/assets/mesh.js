// The picture of the mesh: readers on the left, jobs in the middle, workers on the right.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact-3.1.1.js";
import { Heads, meaningOf, State } from "./terms.js";
import { ago, apart, busyCores, bytes, count, counted, fitting, megabytes, percent, place, rate, runningTasks, toneOf } from "./words.js";

const ROW = 40; // pixels of a node and the space below it
const NODE = 32;
const TOP = 26;
const WIDEST = 22; // pixels of the widest flow
const HEARD = ["live", "waits"]; // states of readers whose figures are current
const CORES = 12; // the most cores that are drawn one by one

/** Return [width, ref] of an element that is as wide as there is room. */
function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(900);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(300, Math.floor(entry.contentRect.width))));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [width, ref];
}

const curve = (x1, y1, x2, y2) => {
  const middle = (x1 + x2) / 2;
  return `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
};

/** Give each node a middle: columns are as high as the longest, their nodes even. */
function laidOut(nodes, height) {
  const step = Math.min(ROW * 1.6, (height - TOP) / Math.max(1, nodes.length));
  const first = TOP + (height - TOP - step * nodes.length) / 2;
  return nodes.map((node, i) => ({ ...node, y: first + step * (i + 0.5) }));
}

/** Where flows end at each node, one below the other, in the order of their other ends. */
function fanned(flows, end, other, middles, others, widths) {
  const by = new Map();
  flows.forEach((flow, i) => by.set(flow[end], [...(by.get(flow[end]) ?? []), i]));
  const out = [];
  for (const [key, members] of by) {
    members.sort((a, b) => (others.get(flows[a][other]) ?? 0) - (others.get(flows[b][other]) ?? 0));
    const whole = members.reduce((sum, i) => sum + widths[i], 0);
    const squeeze = Math.min(1, (NODE - 6) / whole);
    let at = (middles.get(key) ?? 0) - (whole * squeeze) / 2;
    for (const i of members) {
      out[i] = at + (widths[i] * squeeze) / 2;
      at += widths[i] * squeeze;
    }
  }
  return out;
}

function Flow({ path, width, size, label, href, most }) {
  const still = !(size > 0);
  const pace = most > 0 ? 3.2 - 2.4 * Math.sqrt(size / most) : 3;
  const drawn = html`
    <path class=${still ? "flow still" : "flow"} d=${path} stroke-width=${still ? 1.5 : width}><title>${label}</title></path>
    ${!still && html`<path class="pulse" d=${path} style=${{ "--pace": `${pace.toFixed(1)}s` }} />`}
  `;
  return href ? html`<a href=${href} aria-label=${label} tabindex="-1">${drawn}</a>` : html`<g>${drawn}</g>`;
}

function Node({ x, y, width, tone, label, href, name, lower, upper, children }) {
  const letters = Math.floor((width - 20) / 6.7);
  const kept = upper ? letters - upper.length - 1 : letters;
  const drawn = html`
    <rect class="node" x=${x} y=${y - NODE / 2} width=${width} height=${NODE} rx="5" />
    <rect class=${`edge ${tone}`} x=${x} y=${y - NODE / 2 + 4} width="3" height=${NODE - 8} rx="1.5" />
    <text x=${x + 10} y=${y - 2}>${fitting(name, Math.max(6, kept))}</text>
    ${upper && html`<text class="soft" x=${x + width - 7} y=${y - 2} text-anchor="end">${upper}</text>`}
    <text class="soft" x=${x + 10} y=${y + 11}>${fitting(lower, Math.floor((width - 18) / 5.6))}</text>
    ${children}
    <title>${label}</title>
  `;
  return href ? html`<a href=${href} aria-label=${label}>${drawn}</a>` : html`<g>${drawn}</g>`;
}

/** A square for each core, of which those that are busy are full. */
function Cores({ x, y, node, narrow }) {
  const { busy, cores } = node.load;
  if (node.count > 1 || busy == null || cores == null || cores > CORES || narrow) return null;
  const size = 6;
  const from = x - cores * (size + 2);
  return html`${Array.from({ length: cores }, (_, i) =>
    html`<rect class=${i < Math.round(busy) ? "slot used" : "slot"} x=${from + i * (size + 2)} y=${y + 5} width=${size} height=${size} rx="1" />`
  )}`;
}

const said = (standing) => (meaningOf(standing) ? `${standing} (${meaningOf(standing)})` : standing);
const readerWords = (one) =>
  `${one.label}: ${one.count > 1 ? `${counted(one.count, "reader")}, ` : ""}${said(one.standing)}${HEARD.includes(one.standing) ? `, waits ${percent(one.wait)} of its time, ${bytes(one.nbytes)}/s` : ""}`;
const workerWords = (one) => one.lost != null
  ? `${one.count > 1 ? counted(one.count, "worker") : one.label}: lost, last heard ${ago(one.lost)}`
  : `${one.label}: ${one.count > 1 ? `${counted(one.count, "worker")}, ` : ""}${said(one.standing)}, busy cores ${busyCores(one.load)}, running tasks ${runningTasks(one.load)}, assigned ${count(one.load.assigned)}, ${rate(one.rate)} elements a second${beside(one)}`;
/** What is said below the name of a reader: no figures of one that is not heard. */
function belowReader(one, narrow) {
  if (!HEARD.includes(one.standing)) return one.standing;
  return narrow ? `${percent(one.wait)} wait` : `waits ${percent(one.wait)}, ${bytes(one.nbytes)}/s`;
}
/** Beside what a worker makes: what the median of its peers would make of its tasks. */
const beside = (one) => (one.median == null ? "" : `, median of peers ${rate(one.median)}`);
/** What is said below the name of a worker. */
function belowName(one, narrow) {
  if (one.lost != null) return `lost ${ago(one.lost)}`;
  if (!["live", "slow"].includes(one.standing) && one.count === 1) return one.standing;
  if (narrow) return `${rate(one.rate)}/s`;
  if (one.standing === "slow" && one.count === 1) return `slow: ${rate(one.rate)}/s, peers ${rate(one.median ?? 0)}/s`;
  return `${rate(one.rate)} elements/s${one.count > 1 ? `, ${counted(one.load.assigned, "task")}` : ""}`;
}
const workerPlace = (one) => (one.count > 1 || one.key === "lost" || one.key.startsWith("live,") ? place.workers(one.key) : place.worker(one.key));

export function Picture({ mesh }) {
  const [width, ref] = useWidth();
  const narrow = width < 560;
  const rows = Math.max(mesh.readers.length, mesh.jobs.length, mesh.workers.length, 2);
  const height = TOP + rows * ROW + 6;
  const side = narrow ? Math.floor(width * 0.31) : Math.min(250, Math.floor(width * 0.29));
  const center = narrow ? Math.floor(width * 0.24) : Math.min(190, Math.floor(width * 0.2));
  const xs = { reader: 0, job: Math.floor((width - center) / 2), worker: width - side };

  const readers = laidOut(mesh.readers, height);
  const jobs = laidOut(mesh.jobs, height);
  const workers = laidOut(mesh.workers, height);
  const shorter = (nodes) => (narrow ? apart(nodes.map((one) => one.label)) : nodes.map((one) => one.label));
  const readerNames = shorter(readers), jobNames = shorter(jobs), workerNames = shorter(workers);
  const at = (nodes, key) => new Map(nodes.map((node) => [node[key], node.y]));
  const readerAt = at(readers, "key"), jobAt = at(jobs, "iteration"), workerAt = at(workers, "key");
  const ofJob = new Map(mesh.readers.map((one) => [one.key, mesh.reader_flows.find((flow) => flow.reader === one.key)?.iteration]));

  // One scale for both sides: a flow is as wide as its bytes, else, where none are told, its elements.
  const told = mesh.task_flows.some((flow) => flow.nbytes > 0);
  const size = (flow) => (told ? flow.nbytes : (flow.rate ?? 0));
  const sums = [...workers.map((w) => mesh.task_flows.filter((f) => f.worker === w.key).reduce((s, f) => s + size(f), 0)), ...readers.map((r) => r.nbytes), 1e-9];
  const most = Math.max(...sums);
  const wide = (flow) => Math.max(1.2, (WIDEST * size(flow)) / most);
  const left = mesh.reader_flows, right = mesh.task_flows;
  const leftWidths = left.map(wide), rightWidths = right.map(wide);
  const leftReader = fanned(left, "reader", "iteration", readerAt, jobAt, leftWidths);
  const leftJob = fanned(left, "iteration", "reader", jobAt, readerAt, leftWidths);
  const rightWorker = fanned(right, "worker", "iteration", workerAt, jobAt, rightWidths);
  const rightJob = fanned(right, "iteration", "worker", jobAt, workerAt, rightWidths);
  const largest = Math.max(...left.map(size), ...right.map(size), 0);
  const readerName = new Map(mesh.readers.map((one) => [one.key, one.label]));
  const jobName = new Map(mesh.jobs.map((one) => [one.iteration, one.label]));

  return html`<div ref=${ref}>
    <svg class="mesh" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label="Readers, jobs and workers, and what flows between them">
      <text class="title" x="0" y="14">${narrow ? "Readers" : "Readers: training loops"}</text>
      <text class="title" x=${xs.job + center / 2} y="14" text-anchor="middle">${narrow ? "Jobs" : "Jobs, by their tasks"}</text>
      <text class="title" x=${width} y="14" text-anchor="end">${narrow ? "Workers" : "Workers, with busy cores"}</text>
      ${left.map((flow, i) => readerAt.has(flow.reader) && jobAt.has(flow.iteration) && html`<${Flow} key=${`${flow.iteration} ${flow.reader}`}
        path=${curve(xs.job, leftJob[i], xs.reader + side, leftReader[i])} width=${leftWidths[i]} size=${size(flow)} most=${largest}
        label=${`from ${jobName.get(flow.iteration)} to ${readerName.get(flow.reader)}: ${bytes(flow.nbytes)}/s`} />`)}
      ${right.map((flow, i) => workerAt.has(flow.worker) && jobAt.has(flow.iteration) && html`<${Flow} key=${`${flow.worker} ${flow.iteration} ${flow.task}`}
        path=${curve(xs.worker, rightWorker[i], xs.job + center, rightJob[i])} width=${rightWidths[i]} size=${size(flow)} most=${largest}
        href=${flow.task == null ? null : place.task(flow.task)}
        label=${`${flow.task == null ? counted(flow.count, "task") : `task ${flow.number}`} of ${jobName.get(flow.iteration)} on ${flow.worker}: ${rate(flow.rate)} elements a second, ${bytes(flow.nbytes)}/s`} />`)}
      ${readers.map((one, i) => html`<${Node} key=${one.key} x=${xs.reader} y=${one.y} width=${side} tone=${toneOf(one.standing) === "good" ? "" : toneOf(one.standing)}
        name=${readerNames[i]} upper=${one.count > 1 ? `× ${count(one.count)}` : ""} href=${ofJob.get(one.key) ? place.job(ofJob.get(one.key)) : null} label=${readerWords(one)}
        lower=${belowReader(one, narrow)} />`)}
      ${jobs.map((one, i) => html`<${Node} key=${one.iteration} x=${xs.job} y=${one.y} width=${center} tone="idle" name=${jobNames[i]}
        href=${one.iteration ? place.job(one.iteration) : "#/"} label=${`${one.label}: ${rate(one.rate)} elements a second acked`}
        lower=${narrow ? `${rate(one.rate)}/s` : `${rate(one.rate)} elements/s`} />`)}
      ${workers.map((one, i) => html`<${Node} key=${one.key} x=${xs.worker} y=${one.y} width=${side} tone=${toneOf(one.standing) === "good" ? "" : toneOf(one.standing)}
        name=${workerNames[i]} upper=${one.count > 1 ? `× ${count(one.count)}` : ""} href=${workerPlace(one)} label=${workerWords(one)}
        lower=${belowName(one, narrow)}>
        <${Cores} x=${xs.worker + side - 6} y=${one.y} node=${one} narrow=${narrow} /><//>`)}
    </svg>
  </div>`;
}

export function MeshTable({ mesh }) {
  const names = new Map(mesh.jobs.map((one) => [one.iteration, one.label]));
  return html`<div class="stack">
    <div class="scroll"><table><caption>Workers</caption><${Heads} names=${["worker", "state", ">busy cores", ">running tasks", ">assigned", ">elements/s", ">median of peers", ">buffered, MB"]} />
      <tbody>${mesh.workers.map((one) => html`<tr key=${one.key}><th scope="row"><a href=${workerPlace(one)}>${one.label}</a>${one.count > 1 ? ` × ${count(one.count)}` : ""}</th><td><${State} tone=${toneOf(one.standing)} of=${one.standing}>${one.lost != null ? `lost ${ago(one.lost)}` : one.standing}<//></td><td class="right">${busyCores(one.load)}</td><td class="right">${runningTasks(one.load)}</td><td class="right">${count(one.load.assigned)}</td><td class="right">${rate(one.rate)}</td><td class="right">${one.median == null ? "" : rate(one.median)}</td><td class="right">${megabytes(one.buffered)}</td></tr>`)}</tbody></table></div>
    <div class="scroll"><table><caption>Readers</caption><${Heads} names=${["reader", "state", ">waits", ">MB/s"]} />
      <tbody>${mesh.readers.map((one) => html`<tr key=${one.key}><th scope="row">${one.label}${one.count > 1 ? ` × ${count(one.count)}` : ""}</th><td><${State} tone=${toneOf(one.standing)} of=${one.standing} /></td><td class="right">${HEARD.includes(one.standing) ? percent(one.wait) : "–"}</td><td class="right">${megabytes(one.nbytes)}</td></tr>`)}</tbody></table></div>
    <div class="scroll"><table><caption>Tasks: what flows</caption><${Heads} names=${["task", "job", "worker", ">elements/s", ">MB/s"]} />
      <tbody>${mesh.task_flows.map((flow) => html`<tr key=${`${flow.worker} ${flow.iteration} ${flow.task}`}><th scope="row">${flow.task == null ? counted(flow.count, "task") : html`<a href=${place.task(flow.task)} title=${`task ${flow.task} of the dispatcher`}>task ${flow.number}</a>`}</th><td>${names.get(flow.iteration)}</td><td>${flow.worker}</td><td class="right">${rate(flow.rate)}</td><td class="right">${megabytes(flow.nbytes)}</td></tr>`)}</tbody></table></div>
  </div>`;
}
