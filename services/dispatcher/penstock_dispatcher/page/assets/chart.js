// Time lines, with marks where something happened.
import { html, useEffect, useRef } from "./vendor/htm-preact-3.1.1.js";
import { MARKS, percent, rate, megabytes, time } from "./words.js";

/** Return a colour of the page as a canvas takes it. */
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const KINDS = {
  wait: { title: "Waits and buffers", share: true, series: [["wait", "waits", "loop waits", "waits-faint"], ["filled", "flow", "buffers of workers full"], ["held", "soft", "buffers of readers full"]], format: percent },
  elements: { title: "Elements a second", series: [["elements", "flow", "elements acked a second", "flow-faint"]], format: rate },
  nbytes: { title: "Megabytes a second", series: [["nbytes", "flow", "megabytes a second from workers", "flow-faint"]], format: megabytes },
  steps: { title: "Steps a second", series: [["steps", "flow", "steps of loops a second", "flow-faint"]], format: rate },
};

const KEYS = { waits: "waits", flow: "flow", soft: "held" };

function options(kind, width, height, marks) {
  const { share, series, format } = KINDS[kind];
  const soft = colour("soft"), line = colour("line");
  const axis = { stroke: soft, font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: line, width: 1 } };
  return {
    width, height, padding: [14, 24, 0, 0], cursor: { show: true, y: false, points: { size: 5 } }, legend: { show: false },
    scales: { y: share ? { range: [0, 1] } : { range: (_, __, max) => [0, max > 0 ? max * 1.15 : 1] } },
    axes: [
      { ...axis, size: 24, space: 70, values: (plot, at) => at.map((one) => (plot.scales.x.max - plot.scales.x.min < 1200 ? time(one) : time(one).slice(0, 5))), grid: { show: false } },
      { ...axis, size: 44, space: 28, values: (_, at) => at.map(format) },
    ],
    series: [{}, ...series.map(([name, stroke, , fill]) => ({ label: name, stroke: colour(stroke), width: 1.5, fill: fill && colour(fill), points: { show: false } }))],
    hooks: { draw: [(plot) => drawMarks(plot, marks())] },
  };
}

function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  for (const one of marks) {
    if (one.at < plot.scales.x.min || one.at > plot.scales.x.max) continue;
    const [sign, tone] = MARKS[one.kind];
    const x = Math.round(plot.valToPos(one.at, "x", true));
    ctx.strokeStyle = ctx.fillStyle = colour(tone || "soft");
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(sign, x, bbox.top - 4 * devicePixelRatio);
  }
  ctx.restore();
}

/** What a chart says in words, for those who do not see it. */
function inWords(kind, columns) {
  const { title, series, format } = KINDS[kind];
  const said = series.map(([name, , label]) => {
    const seen = columns[name];
    return seen.length ? `${label} ${format(seen[seen.length - 1])} now, from ${format(Math.min(...seen))} to ${format(Math.max(...seen))}` : `${label} unknown`;
  });
  return `${title} since ${columns.at.length ? time(columns.at[0]) : "now"}: ${said.join("; ")}`;
}

export function Chart({ kind, columns, marks, height = 110, theme }) {
  const place = useRef(null), plot = useRef(null), shown = useRef(marks);
  shown.current = marks;
  const data = () => [columns.at, ...KINDS[kind].series.map(([name]) => columns[name])];
  useEffect(() => {
    const made = new uPlot(options(kind, place.current.clientWidth || 400, height, () => shown.current), data(), place.current);
    plot.current = made;
    const watch = new ResizeObserver(([entry]) => made.setSize({ width: Math.max(200, Math.floor(entry.contentRect.width)), height }));
    watch.observe(place.current);
    return () => { watch.disconnect(); made.destroy(); };
  }, [kind, height, theme]);
  useEffect(() => plot.current.setData(data()), [columns, kind, height, theme]);
  const last = (name) => columns[name][columns[name].length - 1] ?? 0;
  return html`<figure class="chart">
    <figcaption>${KINDS[kind].series.map(([name, stroke, label]) => html`<span key=${name}><i class=${`key ${KEYS[stroke]}`}></i>${label} <b>${KINDS[kind].format(last(name))}</b></span>`)}</figcaption>
    <div ref=${place} role="img" aria-label=${inWords(kind, columns)}></div>
  </figure>`;
}

const ROWS = 60;

/** What the charts show as a table: the newest moments, each a row. */
export function TimeTable({ columns }) {
  const series = Object.values(KINDS).flatMap(({ series, format }) => series.map(([name, , label]) => ({ name, label, format })));
  const newest = columns.at.map((at, i) => [at, i]).slice(-ROWS).reverse();
  return html`<div class="scroll tall" tabindex="0" role="region" aria-label="Time line as a table"><table>
    <thead><tr><th scope="col">time</th>${series.map(({ name, label }) => html`<th key=${name} scope="col" class="right">${label}</th>`)}</tr></thead>
    <tbody>${newest.map(([at, i]) => html`<tr key=${at}><th scope="row">${time(at)}</th>${series.map(({ name, format }) => html`<td key=${name} class="right">${format(columns[name][i])}</td>`)}</tr>`)}</tbody></table></div>`;
}

export const NO_COLUMNS = { at: [], wait: [], steps: [], elements: [], nbytes: [], filled: [], held: [] };
