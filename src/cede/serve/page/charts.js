// A chart, and a table with the same numbers, always present for screen readers.

import { Component, createRef, h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);

// Colours for colour-blind people; lines also differ in their dashes.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A200", "#8C8C8C"];
const DASHES = [[], [8, 4], [2, 3], [12, 4, 2, 4], [4, 4], [14, 5], [2, 6], [6, 2]];
export const colour = (i) => COLOURS[i % COLOURS.length];

export const number = (value, digits = 2) =>
  value === null || value === undefined || !Number.isFinite(value)
    ? "–"
    : value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: digits });
export const percent = (value) => (Number.isFinite(value) ? `${number(100 * value, 1)}%` : "–");
export const amount = (value) => (Number.isFinite(value) ? value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : "–");

// Numbers per step are small: more digits, and rates per 100 steps.
const fine = (value) => (Number.isFinite(value) ? value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 4 }) : "–");

// Words for the unit of counting: episodes, or steps without a horizon.
export const words = (unit) =>
  unit === "steps"
    ? { one: "step", many: "steps", a: "a step", per: "per 100 steps", of: 100, form: fine, run: "run" }
    : { one: "episode", many: "episodes", a: "an episode", per: "per episode", of: 1, form: amount, run: "episode" };
export const capital = (text) => text[0].toUpperCase() + text.slice(1);

export const Name = ({ children }) => html`<bdi class="name">${children}</bdi>`;
export const Swatch = ({ index }) => html`<span class="swatch" style=${{ background: colour(index) }} aria-hidden="true"></span>`;

class Plot extends Component {
  place = createRef();

  componentDidMount() {
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(this.place.current);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.again = () => this.draw();
    this.scheme.addEventListener("change", this.again);
    this.draw();
  }

  componentDidUpdate() {
    const names = this.props.series.map((one) => one.name).join("\n");
    if (this.plot && names === this.names) this.plot.setData(this.data());
    else this.draw();
  }

  componentWillUnmount() {
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.again);
    if (this.plot) this.plot.destroy();
  }

  data = () => [this.props.x, ...this.props.series.map((one) => one.values)];
  width = () => Math.max(200, this.place.current.clientWidth);

  fit() {
    if (this.plot && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: 190 });
  }

  draw() {
    if (this.plot) this.plot.destroy();
    const css = getComputedStyle(document.documentElement);
    const ink = css.getPropertyValue("--soft").trim();
    const line = css.getPropertyValue("--line").trim();
    const { series, range, tick = number } = this.props;
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
    this.names = series.map((one) => one.name).join("\n");
    this.plot = new window.uPlot(
      {
        width: this.width(),
        height: 190,
        scales: { x: { time: false }, y: { range: range || ((_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1]) } },
        legend: { show: false },
        cursor: { points: { size: 7 }, drag: { x: false, y: false } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((one) => (Number.isInteger(one) ? number(one) : "")) },
          { ...axis, size: 52, values: (_, ticks) => ticks.map((one) => tick(one)) },
        ],
        series: [
          {},
          ...series.map((one, i) => ({
            label: String(i),
            stroke: colour(one.index ?? i),
            dash: DASHES[i % DASHES.length],
            width: 2,
            points: { show: this.props.x.length < 30, size: 5, fill: colour(one.index ?? i) },
          })),
        ],
        hooks: { setCursor: [(plot) => this.props.onPoint(plot.cursor.idx ?? null)] },
      },
      this.data(),
      this.place.current,
    );
  }

  render = () => html`<div class="plot" ref=${this.place}></div>`;
}

// x: (n,) first number of each bucket. rows: (n,) labels of buckets. series: [{name, values, index}].
// form, tick: format of values in text, and on the axis. unit: of the buckets.
export class Chart extends Component {
  state = { table: false, point: null };

  render({ id, title, note, x, series, form = amount, tick, range, rows, unit }, { table, point }) {
    const at = point === null || point >= x.length ? x.length - 1 : point;
    const label = rows[at] ? rows[at] : "";
    const said = series.map((one) => `${one.name}: ${form(one.values.at(-1))}`).join(", ");
    return html`<section class="card chart" aria-labelledby=${id}>
      <div class="head">
        <h3 id=${id}>${title}</h3>
        <button type="button" class="quiet" aria-pressed=${table} onClick=${() => this.setState({ table: !table })}>
          Table<span class="unseen"> of ${title}</span>
        </button>
      </div>
      <p class="note">${note}</p>
      <ul class="legend" aria-hidden="true">
        ${series.map((one, i) => html`<li>
          <svg viewBox="0 0 26 8" class="key"><line x1="0" y1="4" x2="26" y2="4" stroke-width="3"
            stroke=${colour(one.index ?? i)} stroke-dasharray=${DASHES[i % DASHES.length].join(" ")} /></svg>
          <${Name}>${one.name}</${Name}> <b>${form(one.values[at])}</b>
        </li>`)}
        <li class="where">${label}</li>
      </ul>
      <div role="img" aria-label=${`${title}. Last: ${said}. The table has all numbers.`}>
        <${Plot} x=${x} series=${series} tick=${tick} range=${range} onPoint=${(index) => index !== point && this.setState({ point: index })} />
      </div>
      <div class=${table ? "scroll" : "unseen"} tabindex=${table ? 0 : undefined} role="region" aria-label=${`Table of ${title}`}>
        <table>
          <caption class="unseen">${title}</caption>
          <thead><tr><th scope="col">${capital(words(unit).many)}</th>${series.map((one) => html`<th scope="col"><${Name}>${one.name}</${Name}></th>`)}</tr></thead>
          <tbody>
            ${x.map((_, i) => html`<tr><th scope="row">${rows[i]}</th>${series.map((one) => html`<td>${form(one.values[i])}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
    </section>`;
  }
}
