// The page: what is shown at which address, and what stands around it.
import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact-3.1.1.js";
import { follow } from "./stream.js";
import { Finished, Headline, JobCard, JobPage, JobTable, Log, Mesh, Saves, Spoken, TaskPage, Totals, WorkerPage, WorkersPage } from "./views.js";
import { nameOf, time } from "./words.js";

const CARDS = 3; // the most jobs that have a card each; more are rows of a table
const THEMES = ["system", "light", "dark"];

function useAddress() {
  const [address, setAddress] = useState(location.hash);
  useEffect(() => {
    const hear = () => setAddress(location.hash);
    addEventListener("hashchange", hear);
    return () => removeEventListener("hashchange", hear);
  }, []);
  const [, kind = "", ...rest] = address.split("/");
  return { kind, name: decodeURIComponent(rest.join("/")) };
}

function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem("penstock-theme") ?? "system");
  const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const asked = matchMedia("(prefers-color-scheme: dark)");
    const hear = () => setDark(asked.matches);
    asked.addEventListener("change", hear);
    return () => asked.removeEventListener("change", hear);
  }, []);
  const choose = (next) => {
    localStorage.setItem("penstock-theme", next);
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    setTheme(next);
  };
  return { theme, choose, seen: theme === "system" ? (dark ? "dark" : "light") : theme };
}

function Bar({ shown, live, since, address, theme, choose }) {
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  const here = (kind) => (address.kind === kind ? "page" : undefined);
  return html`<header class="bar">
    <a class="brand" href="#/"><img src="assets/icon.svg" alt="" />Penstock</a>
    <nav aria-label="Views"><a href="#/" aria-current=${here("")}>Overview</a><a href="#/workers" aria-current=${here("workers")}>Workers</a><a href="#/log" aria-current=${here("log")}>Log</a></nav>
    <span class="end small soft">
      <span class="address">${shown?.dispatcher.address}${shown?.dispatcher.penstock && `, penstock ${shown.dispatcher.penstock}`}</span>
      ${shown?.dispatcher.insecure && html`<span class="tone-bad">insecure: whoever can connect may run code</span>`}
      <span><i class=${`dot ${live ? "" : "away"}`} aria-hidden="true"></i><span class="term" title=${live ? "This page shows what the dispatcher says now" : "The dispatcher does not answer: what is below is old"}>${live ? "live" : since ? "away" : "connecting"}</span></span>
      <button class="plain" onClick=${() => choose(next)} aria-label=${`Colours: ${theme}; change to ${next}`}>${theme === "system" ? "◑ system" : theme === "light" ? "○ light" : "● dark"}</button>
    </span></header>`;
}

function Overview({ shown, theme }) {
  const running = shown.jobs.filter((job) => job.standing !== "finished" || job.balance.faults.length);
  return html`<${Totals} totals=${shown.totals} />
    <div class="columns"><div class="stack">
      ${running.length > CARDS && html`<${JobTable} jobs=${running} lines=${shown.lines} />`}
      <${Mesh} mesh=${shown.mesh} />
      ${running.length <= CARDS && running.map((job) => html`<${JobCard} key=${job.iteration} job=${job} columns=${shown.lines[job.iteration]} notices=${shown.notices} theme=${theme}
        compact=${running.length > 2} told=${(running.length === 1 && job.iteration === shown.headline.iteration) || [shown.headline.before, shown.headline.detail].includes(job.sentence)} />`)}
      <${Saves} saves=${shown.saves} />
      <${Finished} jobs=${shown.jobs.filter((job) => !running.includes(job))} />
    </div><div class="stack"><${Log} notices=${shown.notices} /></div></div>`;
}

function View({ shown, address, theme, live }) {
  const { kind, name } = address, { notices } = shown;
  if (kind === "job") {
    const job = shown.jobs.find((one) => String(one.iteration) === name);
    if (job) return html`<${JobPage} key=${name} job=${job} columns=${shown.lines[name]} notices=${notices} theme=${theme} live=${live} />`;
    return html`<section class="first"><p class="tone tone-idle">job</p><h1 id="first" tabindex="-1">A job that is over</h1><p>The pass with the number ${name} is not known any more, or was never opened.</p></section><${Log} notices=${notices.filter((one) => String(one.iteration) === name)} />`;
  }
  if (kind === "worker") return html`<${WorkerPage} key=${name} address=${name} notices=${notices} live=${live} />`;
  if (kind === "task") return html`<${TaskPage} key=${name} task=${Number(name)} notices=${notices} live=${live} />`;
  if (kind === "workers") return html`<${WorkersPage} key=${name} group=${name} totals=${shown.totals} live=${live} />`;
  if (kind === "log") return html`<section class="first"><h1 id="first" tabindex="-1">Log</h1></section><${Log} notices=${notices} />`;
  return html`<${Headline} headline=${shown.headline} /><${Overview} shown=${shown} theme=${theme} />`;
}

function Page() {
  const [{ shown, live, since, refused }, setState] = useState({ shown: null, live: false, since: null, refused: false });
  const address = useAddress();
  const { theme, choose, seen } = useTheme();
  const moved = useRef(false);
  useEffect(() => follow(setState), []);
  useEffect(() => {
    if (moved.current) document.getElementById("first")?.focus({ preventScroll: false });
    moved.current = true;
    scrollTo(0, 0);
  }, [address.kind, address.name]);
  useEffect(() => {
    if (!shown) return;
    const { before, number, after } = shown.headline;
    const about = address.kind === "job" ? nameOf(shown.jobs.find((one) => String(one.iteration) === address.name) ?? { job: "job" }) : address.kind === "task" ? "" : address.name;
    document.title = address.kind ? `${about || address.kind} – Penstock` : `${`${before} ${number} ${after}`.trim()} – Penstock`;
  }, [shown, address.kind, address.name]);
  return html`<a class="skip" href="#first" onClick=${(event) => { event.preventDefault(); document.getElementById("first")?.focus(); }}>Skip to what it says</a>
    <${Bar} shown=${shown} live=${live} since=${since} address=${address} theme=${theme} choose=${choose} />
    ${!live && since && html`<div class="banner" role="alert">${refused ? html`Since ${time(since)} the dispatcher refuses the token that this page was opened with: reload, and show another one, which <code>penstock keys token</code> makes.` : `The dispatcher does not answer since ${time(since)}; the page asks again every two seconds.`}${shown && ` What is below is from ${time(shown.at)}.`}</div>`}
    ${shown && html`<${Spoken} headline=${shown.headline} />`}
    <main id="main" class=${live || !shown ? "" : "stale"}>${shown ? html`<${View} shown=${shown} address=${address} theme=${seen} live=${live} />` : html`<section class="first"><h1 id="first" tabindex="-1">${since ? "No answer from the dispatcher" : "Asking the dispatcher…"}</h1></section>`}</main>`;
}

render(html`<${Page} />`, document.getElementById("page"));
