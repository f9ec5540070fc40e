"""The style sheet of a report: phone first, light and dark, and on paper."""

CSS = """\
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #566273; --line: #d9dee6;
  --accent: #0a5c94; --mark: #e8f1f8; --good: #14683a; --bad: #a5330b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1b212a; --ink: #e6eaf0; --soft: #a4b0c0; --line: #343d4a;
    --accent: #7cc0f4; --mark: #1f3040; --good: #7fd6a3; --bad: #ff9c74;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 1rem; }
body {
  margin: 0 auto; max-width: 70rem; padding: 1.25rem 1rem 3rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 2.75rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .6rem; }
h4 { font-size: 1rem; margin: 1.2rem 0 .6rem; color: var(--soft); }
p { margin: 0 0 .8rem; max-width: 46rem; }
header p { max-width: none; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--card); padding: .5rem 1rem; z-index: 1; }
.soft, .interval, figcaption, caption .unit { color: var(--soft); }
nav ul { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; list-style: none; margin: .75rem 0 0; padding: 0; }
nav a { display: inline-block; padding: .35rem 0; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 0 0 1rem;
}
.lead p { font-size: 1.12rem; max-width: none; }
.lead ul { margin: 0; padding-left: 1.2rem; }
.lead li { margin: .35rem 0; }
.note { border-left: .3rem solid var(--accent); }
.note p { margin: 0; }
.tiles { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); margin: 0 0 1rem; }
.tiles > div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.tiles dt { color: var(--soft); font-size: .9rem; }
.tiles dd { margin: 0; }
.tiles .big { font-size: 1.5rem; font-weight: 650; font-variant-numeric: tabular-nums; }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
.grid { align-items: start; }
.grid.broad { grid-template-columns: minmax(0, 1fr); }
.grid > * { margin: 0; min-width: 0; }
.scroll { overflow-x: auto; position: relative; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.grid table { width: 100%; }
caption { text-align: left; font-weight: 600; padding: 0 0 .5rem; }
caption > span {
  display: block; position: sticky; left: 0; width: fit-content; max-width: min(100%, calc(100vw - 4.5rem));
}
caption .unit { font-weight: 400; }
.under {
  display: block; color: var(--soft); font-size: .85rem; font-weight: 400; white-space: normal; min-width: 8rem;
}
th, td { padding: .4rem .75rem .4rem 0; text-align: right; vertical-align: top; border-top: 1px solid var(--line); }
th { font-weight: 600; }
thead th { border-top: 0; color: var(--soft); font-size: .9rem; vertical-align: bottom; }
th[scope=row], .text { text-align: left; }
th[scope=row] { white-space: nowrap; }
td:not(.text) { white-space: nowrap; }
tr > :last-child { padding-right: .25rem; }
.wide { min-width: 12rem; }
th.wide { white-space: normal; }
thead th, .fixed { white-space: nowrap; }
tr.ours > * { background: var(--mark); }
tr.ours > th { box-shadow: inset .25rem 0 var(--accent); padding-left: .6rem; }
.interval { display: block; font-size: .8rem; white-space: nowrap; }
.tag {
  display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .5rem; font-size: .78rem;
  white-space: nowrap;
}
.better, .agrees { color: var(--good); }
.worse, .differs { color: var(--bad); }
figure.card { padding: .75rem; }
figure svg { display: block; width: 100%; height: auto; max-width: 32rem; margin: 0 auto; }
.broad svg { max-width: 46rem; }
.paper { background: #ffffff; border-radius: .4rem; padding: .4rem; }
figcaption { font-size: .92rem; margin-top: .6rem; }
figcaption strong { color: var(--ink); }
details { margin: 0 0 1rem; }
summary { cursor: pointer; padding: .5rem 0; font-weight: 600; }
details .card { margin-top: .5rem; }
blockquote {
  margin: 0 0 .7rem; padding: .1rem 0 .1rem .8rem; border-inline-start: .25rem solid var(--line); font-size: 1.05rem;
}
.facts { display: flex; flex-wrap: wrap; gap: .3rem 1.6rem; margin: 0 0 .8rem; }
.facts dt { color: var(--soft); font-size: .85rem; }
.facts dd { margin: 0; font-weight: 600; }
.terms dt { font-weight: 600; margin-top: .6rem; }
.terms dd { margin: 0; max-width: 46rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; color: var(--soft); font-size: .9rem; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (max-width: 40rem) {
  table { font-size: .92rem; }
  th, td { padding-right: .55rem; }
  .interval { font-size: .74rem; }
  .wide { min-width: 10rem; }
  .under { max-width: 9rem; }
}
@media print {
  :root { --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb; --mark: #f0f0f0; --accent: #000; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, .skip { display: none; }
  .scroll { overflow: visible; }
  .grid { grid-template-columns: 1fr 1fr; }
  table { font-size: .85rem; }
  h2, h3, h4 { break-after: avoid; }
  figure, article, tr, .tiles > div { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
