// <attention-explorer>: the weights of attention, computed in the page from stored scores.
// The Python module puts LABELS (words by language) and STYLE (colors, and explorer.css) before this text.

const TICKS = [["1/d_h", -1], ["1/√d_h", -0.5], ["1", 0], ["√d_h", 0.5]]; // the scale as a power of d_h
const STEPS = 20; // of the slider, for a whole power
const THICKEST = 16; // pixels, for a weight of 1
const NAMED = 8; // so many keys are named in the sentence

// Weights of one row. A key that may not be read gets exactly 0; so does all of a row that may read nothing.
function softmax(scores, readable) {
  const top = Math.max(...scores.filter((_, j) => readable[j]));
  const exps = scores.map((score, j) => (readable[j] ? Math.exp(score - top) : 0));
  const total = exps.reduce((sum, e) => sum + e, 0);
  return exps.map((e) => (total ? e / total : 0));
}

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const fill = (text, words) => text.replace(/\{(\w+)\}/g, (_, name) => words[name]);

// The book says light or dark on <html>, JupyterLab on <body>; elsewhere the system decides.
const system = matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  const book = document.documentElement.dataset.theme;
  const lab = document.body.dataset.jpThemeLight;
  return book ? book === "dark" : lab ? lab === "false" : system.matches;
}

class AttentionExplorer extends HTMLElement {
  connectedCallback() {
    if (!this.shadowRoot) this.build(JSON.parse(this.dataset.explorer));
    this.follow = () => this.toggleAttribute("dark", isDark());
    this.observer = new MutationObserver(this.follow);
    for (const element of [document.documentElement, document.body])
      this.observer.observe(element, { attributeFilter: ["data-theme", "data-jp-theme-light"] });
    system.addEventListener("change", this.follow);
    this.follow();
  }

  disconnectedCallback() {
    this.observer.disconnect();
    system.removeEventListener("change", this.follow);
  }

  build(data) {
    this.data = data;
    this.state = { query: data.query, head: 0, power: -0.5, causal: Boolean(data.causal), padding: false };
    this.words = LABELS[this.closest("[lang]")?.lang.slice(0, 2)] ?? LABELS.en;
    const root = make("div", { class: "box", role: "group", "aria-label": this.words.title }, this.controls(), this.stage());
    this.sentence = make("p", { role: "status" });
    root.append(this.sentence);
    this.attachShadow({ mode: "open" }).append(make("style", {}, STYLE), root);
    this.render();
  }

  set(change) {
    if (Object.entries(change).every(([name, value]) => this.state[name] === value)) return;
    Object.assign(this.state, change);
    this.render();
  }

  // Which keys query i may read. With fewer queries than keys, the queries are the last ones.
  readable(i) {
    const { queries, keys, padding } = this.data;
    const last = i + keys.length - queries.length;
    return keys.map((_, j) => !(this.state.causal && j > last) && !(this.state.padding && !padding[j]));
  }

  // The weights of all rows under the present settings.
  weights() {
    const factor = this.data.d_h ? this.data.d_h ** (this.state.power + 0.5) : 1; // S was divided by √d_h already
    return this.data.S[this.state.head].map((row, i) => softmax(row.map((s) => factor * s), this.readable(i)));
  }

  // One choice of several, as radio buttons: arrow keys and screen readers know them.
  choice(name, legend, options) {
    const buttons = options.map(([text, spoken], value) => {
      const radio = make("input", { type: "radio", name, value, "aria-label": spoken });
      radio.addEventListener("change", () => this.set({ [name]: value }));
      return make("label", {}, radio, make("span", {}, text));
    });
    return make("fieldset", { class: name }, make("legend", {}, legend), make("div", { class: "row" }, ...buttons));
  }

  controls() {
    const { S, d_h, causal, padding } = this.data;
    const parts = [];
    if (S.length > 1) parts.push(this.choice("head", this.words.head, S.map((_, a) => [a, `${this.words.head} ${a}`])));
    if (d_h) parts.push(this.slider());
    for (const [name, given] of [["causal", causal], ["padding", padding]]) {
      if (given == null) continue;
      const box = make("input", { type: "checkbox", name });
      box.addEventListener("change", () => this.set({ [name]: box.checked }));
      parts.push(make("label", { class: "switch" }, box, this.words[name]));
    }
    return make("div", { class: "controls" }, ...parts);
  }

  slider() {
    const [least, most] = [TICKS[0][1], TICKS.at(-1)[1]];
    const range = make("input", { type: "range", name: "scale", min: least * STEPS, max: most * STEPS });
    range.setAttribute("aria-label", this.words.scale);
    range.addEventListener("input", () => this.set({ power: range.value / STEPS }));
    const place = (power) => `--place: ${(power - least) / (most - least)}`;
    const ticks = TICKS.map(([text, power]) => make("span", { style: place(power) }, text));
    this.scale = make("b");
    const head = make("div", {}, `${this.words.scale} `, this.scale);
    return make("div", { class: "scale" }, head, range, make("div", { class: "ticks", "aria-hidden": true }, ...ticks));
  }

  // The scale in words, with its name where it has one.
  scaleText() {
    const { power } = this.state;
    const value = String(Number((this.data.d_h ** power).toPrecision(3)));
    const name = TICKS.find(([text, tick]) => tick === power && text !== value)?.[0];
    return name ? `${name} = ${value}` : value;
  }

  // Tokens as they are called: one that stands there twice gets its place.
  name(tokens, i) {
    return tokens.indexOf(tokens[i]) === tokens.lastIndexOf(tokens[i]) ? tokens[i] : `${tokens[i]} (${i})`;
  }

  stage() {
    const { queries, keys } = this.data;
    const columns = Math.max(queries.length, keys.length);
    const who = this.choice("query", this.words.queries, queries.map((token, i) => [token, this.name(queries, i)]));
    this.lines = keys.map(() => make("path"));
    this.keys = keys.map((token) => make("div", { class: "key" }, make("span", {}, token), make("b")));
    const picture = make("div", { class: "picture", style: `--columns: ${columns}` }, who,
      make("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": true }, ...this.lines),
      make("div", { class: "row", "aria-hidden": true }, ...this.keys),
      make("div", { class: "legend", "aria-hidden": true }, this.words.keys));
    picture.querySelectorAll(".query label").forEach((label, i) => this.point(label, i));
    return make("div", { class: "stage" }, make("div", { class: "scroll" }, picture), this.matrix());
  }

  matrix() {
    const { queries, keys } = this.data;
    this.caption = make("caption");
    this.cells = queries.map(() => keys.map(() => make("td")));
    this.rows = this.cells.map((cells, i) => make("tr", {}, make("th", { scope: "row" }, queries[i]), ...cells));
    this.rows.forEach((row, i) => this.point(row, i));
    const heads = keys.map((token) => make("th", { scope: "col" }, token));
    const table = make("table", { style: `--columns: ${keys.length}` }, this.caption,
      make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...this.rows));
    const frame = make("div", { class: "scroll", role: "group", "aria-label": this.words.weights }, table);
    new ResizeObserver(() => (frame.tabIndex = frame.scrollWidth > frame.clientWidth ? 0 : -1)).observe(frame);
    return frame;
  }

  // Pointing chooses, and so does a tap.
  point(element, query) {
    element.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.set({ query }));
    element.addEventListener("click", () => this.set({ query }));
  }

  render() {
    const { queries, keys, d_h } = this.data;
    const { query, head, power } = this.state;
    const [all, root] = [this.weights(), this.shadowRoot];
    all.forEach((weights, i) => {
      const readable = this.readable(i);
      this.rows[i].classList.toggle("chosen", i === query);
      weights.forEach((weight, j) => this.show(this.cells[i][j], weight, readable[j]));
    });
    const start = (query + 0.5) / queries.length;
    all[query].forEach((weight, j) => {
      const end = (j + 0.5) / keys.length;
      this.lines[j].setAttribute("d", `M${start} 0C${start} .5 ${end} .5 ${end} 1`);
      this.lines[j].style.strokeWidth = `${THICKEST * weight}px`;
      this.keys[j].lastChild.textContent = this.cells[query][j].firstChild.textContent;
      this.keys[j].classList.toggle("hidden", !this.readable(query)[j]);
    });
    root.querySelectorAll("[name=query]")[query].checked = true;
    if (this.data.S.length > 1) root.querySelectorAll("[name=head]")[head].checked = true;
    for (const box of root.querySelectorAll("[type=checkbox]")) box.checked = this.state[box.name];
    if (d_h) {
      const range = root.querySelector("[type=range]");
      range.value = power * STEPS;
      range.setAttribute("aria-valuetext", this.scaleText());
      this.scale.textContent = this.scaleText();
    }
    this.caption.replaceChildren(this.words.weights, ...this.settings().flatMap((text) => [" ", make("span", {}, text)]));
    this.sentence.textContent = this.say(all[query]);
  }

  show(cell, weight, readable) {
    cell.replaceChildren(readable ? weight.toFixed(2) : "0");
    if (!readable) cell.append(make("i", {}, ` ${this.words.hidden}`));
    cell.classList.toggle("hidden", !readable);
    cell.style.setProperty("--weight", weight.toFixed(3));
  }

  settings() {
    const { head, causal, padding } = this.state;
    const said = [];
    if (this.data.S.length > 1) said.push(`${this.words.head} ${head}.`);
    if (this.data.d_h) said.push(`${this.words.scale} ${this.scaleText()}.`);
    if (causal) said.push(`${this.words.causal}.`);
    if (padding) said.push(`${this.words.padding}.`);
    return said;
  }

  say(weights) {
    const { queries, keys } = this.data;
    const query = this.name(queries, this.state.query);
    const readable = this.readable(this.state.query);
    const order = keys.map((_, j) => j).filter((j) => readable[j]).sort((a, b) => weights[b] - weights[a]);
    if (!order.length) return fill(this.words.nothing, { query });
    const sum = (places) => places.reduce((total, j) => total + weights[j], 0).toFixed(2);
    const list = order.slice(0, NAMED).map((j) => `${this.name(keys, j)} ${weights[j].toFixed(2)}`);
    if (order.length > NAMED) list.push(fill(this.words.others, { weight: sum(order.slice(NAMED)) }));
    return fill(this.words.reads, { query, list: list.join(this.words.comma), sum: sum(order) });
  }
}

// Another output of this page may have defined it.
if (!customElements.get("attention-explorer")) customElements.define("attention-explorer", AttentionExplorer);
