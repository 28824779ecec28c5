// What the dispatcher shows, kept up to date by server-sent events.

const KEPT = 900; // points of a time line, as many as the dispatcher keeps and what was seen before
const NOTICES = 400;
const AGAIN = 2000; // milliseconds until a stream that was refused is asked for again

/** Put `more` columns behind `known` ones; what is of the same time or before is there already. */
export function joined(known, more) {
  if (!known) return more;
  const last = known.at[known.at.length - 1];
  const from = more.at.findIndex((at) => at > last);
  if (from < 0) return known;
  const out = {};
  for (const name of Object.keys(more)) out[name] = [...known[name], ...more[name].slice(from)].slice(-KEPT);
  return out;
}

/** A whole snapshot, behind what was seen before the dispatcher began again. */
export function renewed(before, now) {
  const lines = {};
  for (const [iteration, columns] of Object.entries(now.lines ?? {})) {
    const known = before?.lines?.[iteration];
    const first = columns.at[0] ?? Infinity;
    const cut = known ? known.at.filter((at) => at < first).length : 0;
    lines[iteration] = {};
    for (const name of Object.keys(columns)) {
      lines[iteration][name] = [...(known ? known[name].slice(0, cut) : []), ...columns[name]].slice(-KEPT);
    }
  }
  const told = now.notices ?? [];
  const since = told.length ? told[0].at : now.at;
  const older = (before?.notices ?? []).filter((one) => one.at < since);
  return { ...now, lines, notices: [...older, ...told].slice(-NOTICES) };
}

/** `before` with what a change says. */
export function changed(before, change) {
  if (!before || change.number <= before.number) return before;
  const lines = { ...before.lines };
  for (const [iteration, columns] of Object.entries(change.lines ?? {})) lines[iteration] = joined(lines[iteration], columns);
  const next = { ...before, number: change.number, at: change.at, lines };
  for (const part of ["dispatcher", "headline", "totals", "jobs", "mesh"]) {
    if (change[part] != null) next[part] = change[part];
  }
  if (change.jobs) {
    const there = new Set(change.jobs.map((job) => String(job.iteration)));
    for (const iteration of Object.keys(lines)) if (!there.has(iteration)) delete lines[iteration];
  }
  if (change.notices) next.notices = [...before.notices, ...change.notices].slice(-NOTICES);
  return next;
}

/** Whether the dispatcher answers, and refuses this page: its token has expired, or is trusted no more. */
async function isRefused() {
  try {
    return [401, 403].includes((await fetch("assets/icon.svg", { method: "HEAD", cache: "no-store" })).status);
  } catch {
    return false;
  }
}

/** Call `tell({shown, live, since, refused})` whenever there is something new; `since` is when it went away. */
export function follow(tell) {
  let state = { shown: null, live: false, since: null, refused: false };
  const now = (more) => tell((state = { ...state, ...more }));
  const open = () => {
    const source = new EventSource("events");
    const hear = (make) => (event) => now({ shown: make(state.shown, JSON.parse(event.data)), live: true, since: null, refused: false });
    source.addEventListener("snapshot", hear(renewed));
    source.addEventListener("change", hear(changed));
    source.addEventListener("error", async () => {
      now({ live: false, since: state.since ?? Date.now() / 1000 });
      if (source.readyState !== EventSource.CLOSED) return;
      now({ refused: await isRefused() });
      setTimeout(open, AGAIN);
    });
  };
  open();
}
