// What the page shows: the graph, the search, the details of a node, and the numbers of the export.
"use strict";

const byId = (id) => document.getElementById(id);
const state = new URLSearchParams(location.hash.slice(1));
const MODEL = DATA.graph && readGraph(DATA.graph);
const measure = document.createElement("canvas").getContext("2d");
const FONT = ' Inter, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif';
const widthOf = (text, size, weight) => {
  measure.font = `${weight || ""} ${size}px${FONT}`;
  return measure.measureText(text).width;
};
const short = (text, size) => text.length > size ? `${text.slice(0, size - 1)}…` : text;
const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};

const Graph = {
  svg: null, root: null, zoom: null, chosen: null, lit: new Set(),

  start() {
    this.svg = d3.select("#canvas > svg");
    this.root = this.svg.append("g");
    this.zoom = d3.zoom().scaleExtent([0.02, 3])
      .on("zoom", (event) => this.root.attr("transform", event.transform));
    this.svg.call(this.zoom).on("dblclick.zoom", null);
    this.openFirst();
    this.draw();
    this.fit(0);
    byId("fit").onclick = () => this.fit(250);
    byId("fold").onclick = () => {
      for (const item of MODEL.items)
        for (let at = item.parent; at; at = at.parent) { at.open = false; at.layout = null; }
      this.openFirst();
      this.draw();
      this.fit(250);
    };
  },

  // Opens groups from the outside in, as long as the picture stays small.
  openFirst() {
    MODEL.root.open = true;
    let shown = MODEL.root.children.length;
    let level = MODEL.root.children;
    while (level.length) {
      const groups = level.filter((child) => child.children);
      groups.sort((a, b) => a.children.length - b.children.length);
      for (const group of groups) {
        if (shown + group.children.length > 28) break;
        group.open = true;
        shown += group.children.length;
      }
      level = groups.filter((group) => group.open).flatMap((group) => group.children);
    }
  },

  // Places the children of an open group; sets its width and height.
  place(group) {
    if (group.layout) return group.layout;
    const level = group.level ??= levelOf(MODEL, group);
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({rankdir: "TB", nodesep: 22, ranksep: 34, edgesep: 12, marginx: 16, marginy: 14});
    const boxes = [];
    for (const child of group.children) {
      const box = this.sizeOf(child);
      boxes.push({id: level.ids.get(child), item: child, ...box});
    }
    for (const [kind, ports] of [["in", level.ins], ["out", level.outs]]) {
      for (const port of ports) {
        const text = this.portText(port, kind);
        boxes.push({id: port.id, port, text, width: widthOf(text, 11) + 22, height: 24});
      }
    }
    for (const box of boxes) graph.setNode(box.id, {width: box.width, height: box.height});
    for (const edge of level.edges) {
      const text = short(typesText(MODEL, edge.values), 34);
      graph.setEdge(edge.from, edge.to, {text, values: edge.values, width: widthOf(text, 10) + 6,
                                         height: text ? 14 : 0, labelpos: "c"});
    }
    dagre.layout(graph);
    for (const box of boxes) Object.assign(box, {x: graph.node(box.id).x, y: graph.node(box.id).y});
    const {width, height} = graph.graph();
    group.layout = {boxes, width: Math.max(width, 60), height: Math.max(height, 40),
                    edges: graph.edges().map((edge) => graph.edge(edge))};
    return group.layout;
  },

  portText({values}, kind) {
    if (values.length > 1) return `${values.length} ${kind}puts`;
    const [name, type] = MODEL.values[values[0]];
    return short(name, 30) + (type ? `  ${short(type, 30)}` : "");
  },

  sizeOf(item) {
    if (item.children && item.open) {
      const {width, height} = this.place(item);
      return {width: Math.max(width, widthOf(this.titleOf(item), 12, 600) + 40), height: height + 28};
    }
    const lines = this.linesOf(item);
    return {width: Math.max(76, widthOf(lines[0], 12, 600) + 28, widthOf(lines[1], 10.5) + 26), height: 42};
  },

  linesOf(item) {
    if (!item.children) return [item.op, short(item.name.replace(/^node_/, ""), 32)];
    const nodes = `${item.count} node${item.count === 1 ? "" : "s"}`;
    return [`▸ ${short(item.name || "graph", 36)}`, item.kind === "part" ? nodes : `${short(shortClass(item.kind), 30)} · ${nodes}`];
  },
  titleOf(item) {
    return `▾ ${item.name || "graph"}   ${item.kind === "part" ? "" : shortClass(item.kind)}`;
  },

  draw() {
    for (let group of this.stale()) group.layout = null;
    this.root.selectAll("*").remove();
    const layout = this.place(MODEL.root);
    this.size = layout;
    this.paint(this.root, layout);
    this.mark();
  },

  // The open groups, whose layouts depend on what is open in them.
  *stale(group = MODEL.root) {
    if (!group.open) return;
    const before = group.drawnAs;
    group.drawnAs = this.shape(group);
    if (before !== group.drawnAs) yield group;
    for (const child of group.children) if (child.children) yield* this.stale(child);
  },
  shape(group) {
    return group.children.map((child) => !child.children ? "" : child.open ? `(${this.shape(child)})` : ".").join(",");
  },

  paint(to, layout) {
    const line = d3.line().curve(d3.curveBasis).x((point) => point.x).y((point) => point.y);
    for (const edge of layout.edges) {
      const g = to.append("g").attr("class", "edge").datum(edge);
      g.append("path").attr("d", line(edge.points)).attr("marker-end", "url(#arrow)");
      if (edge.text) g.append("text").attr("x", edge.x).attr("y", edge.y + 3).attr("text-anchor", "middle").text(edge.text);
    }
    for (const box of layout.boxes) {
      const g = to.append("g").attr("transform", `translate(${box.x - box.width / 2},${box.y - box.height / 2})`);
      if (box.port) this.paintPort(g, box);
      else if (box.item.children && box.item.open) this.paintGroup(g, box);
      else this.paintItem(g, box);
    }
  },

  paintPort(g, box) {
    g.attr("class", "port");
    g.append("rect").attr("class", "box").attr("width", box.width).attr("height", box.height).attr("rx", 12);
    g.append("text").attr("x", box.width / 2).attr("y", 16).attr("text-anchor", "middle").style("font-size", "11px").text(box.text);
    g.append("title").text(box.port.values.slice(0, 40).map((value) => MODEL.values[value].join(" ")).join("\n"));
  },

  paintItem(g, box) {
    const {item} = box;
    const [first, second] = this.linesOf(item);
    g.attr("class", item.children ? "folded" : "leaf").datum(item);
    g.append("rect").attr("class", "box").attr("width", box.width).attr("height", box.height).attr("rx", 8);
    if (item.children)
      g.append("rect").attr("class", "box").attr("x", 3).attr("y", 3).attr("width", box.width).attr("height", box.height).attr("rx", 8).lower();
    else
      g.append("path").attr("d", `M8,0 H5 V${box.height} H8 A8,8 0 0 1 0,${box.height - 8} V8 A8,8 0 0 1 8,0`).attr("fill", colorOf(item.op));
    g.append("text").attr("class", "title").attr("x", 15).attr("y", 18).text(first);
    g.append("text").attr("class", "sub").attr("x", 15).attr("y", 33).text(second);
    g.append("title").text(item.children ? `${pathOf(item)}\n${item.kind}` : `${item.name}\n${item.target}`);
    g.on("click", () => item.children ? this.toggle(item) : this.choose(item));
  },

  paintGroup(g, box) {
    const {item} = box;
    const layout = item.layout;
    g.attr("class", "group").datum(item);
    g.append("rect").attr("class", "frame").attr("width", box.width).attr("height", box.height).attr("rx", 10);
    g.append("path").attr("class", "bar").attr("d", `M0,26 V10 A10,10 0 0 1 10,0 H${box.width - 10} A10,10 0 0 1 ${box.width},10 V26 Z`)
      .on("click", () => this.toggle(item));
    g.append("text").attr("class", "title").attr("x", 12).attr("y", 17).style("pointer-events", "none").text(this.titleOf(item));
    const inner = g.append("g").attr("transform", `translate(${(box.width - layout.width) / 2},28)`);
    this.paint(inner, layout);
  },

  // Opens or folds a group, and keeps it where it is on the screen.
  toggle(item) {
    const before = this.placeOf(item);
    item.open = !item.open;
    // A group whose only child is a group opens with it.
    for (let at = item; item.open && at.children && at.children.length === 1; at = at.children[0])
      if (at.children[0].children) at.children[0].open = true;
    this.draw();
    const after = this.placeOf(item);
    if (!before || !after) return;
    const at = d3.zoomTransform(this.svg.node());
    this.svg.call(this.zoom.transform, d3.zoomIdentity
      .translate(at.x + before.left - after.left, at.y + before.top - after.top).scale(at.k));
  },

  placeOf(item) {
    const found = this.elementOf(item);
    return found && found.getBoundingClientRect();
  },
  elementOf(item) {
    return this.root.selectAll("g.leaf, g.folded, g.group").filter((each) => each === item).node();
  },

  choose(item) {
    this.chosen = item;
    this.lit = new Set([...item.inputs, ...item.outputs]);
    this.mark();
    showDetail(item);
    history.replaceState(null, "", `#node=${encodeURIComponent(item.name)}`);
  },
  mark() {
    this.root.selectAll("g.leaf").classed("chosen", (item) => item === this.chosen);
    this.root.selectAll("g.edge").classed("lit", (edge) => [...edge.values].some((value) => this.lit.has(value)));
  },

  // Opens all groups around a node and shows it in the middle.
  reveal(item) {
    for (let at = item.parent; at; at = at.parent) at.open = true;
    this.draw();
    this.choose(item);
    const place = this.elementOf(item).getBoundingClientRect();
    const view = this.svg.node().getBoundingClientRect();
    const at = d3.zoomTransform(this.svg.node());
    const scale = Math.max(at.k, 0.8);
    const x = ((place.left + place.right) / 2 - view.left - at.x) / at.k;
    const y = ((place.top + place.bottom) / 2 - view.top - at.y) / at.k;
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(view.width / 2 - x * scale, view.height / 2 - y * scale).scale(scale));
  },

  fit(duration) {
    const view = byId("canvas").getBoundingClientRect();
    const {width, height} = this.size;
    const scale = Math.min(1.15, (view.width - 40) / width, Math.max((view.height - 50) / height, 0.45));
    const top = Math.max((view.height - height * scale) / 2, 22);
    const to = d3.zoomIdentity.translate((view.width - width * scale) / 2, top).scale(scale);
    (duration ? this.svg.transition().duration(duration) : this.svg).call(this.zoom.transform, to);
  },
};

const shortClass = (name) => (name || "").split(".").pop();
function pathOf(item) {
  const parts = [];
  for (let at = item; at.parent; at = at.parent) if (at.kind !== "part" && at.name) parts.unshift(at.name);
  return parts.join(" › ");
}

// Returns the nodes that a query finds. Its words must all occur, in whatever order.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return MODEL.items.filter((item) => {
    const text = item.text ??= [item.op, item.name, item.target, item.trace.slice(Math.max(0, item.trace.lastIndexOf('File "'))), pathOf(item.parent).replaceAll(" › ", "."), classesOf(item)].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
function classesOf(item) {
  const names = [];
  for (let at = item.parent; at; at = at.parent) names.push(at.kind);
  return names.join(" ");
}

function search(query) {
  const results = byId("results");
  results.replaceChildren();
  const found = find(query);
  results.append(make("div", query.trim() ? `${found.length} node${found.length === 1 ? "" : "s"}` : `${MODEL.items.length} nodes`, "note"));
  const shown = query.trim() ? found : MODEL.items;
  for (const item of shown.slice(0, 200)) {
    const row = make("div", undefined, "hit");
    const mark = make("i");
    mark.style.background = colorOf(item.op);
    const name = make("span", item.name.replace(/^node_/, ""));
    name.title = item.name;
    row.append(mark, name, make("small", item.op));
    row.onclick = () => Graph.reveal(item);
    results.append(row);
  }
  if (shown.length > 200) results.append(make("div", `and ${shown.length - 200} more`, "note"));
  return found;
}

function showDetail(item) {
  const panel = byId("detail");
  panel.replaceChildren();
  if (!item) {
    panel.append(make("h2", DATA.title), make("div", "Choose a node to see its inputs, attributes and source."));
    listValues(panel, "Inputs", MODEL.inputs);
    listValues(panel, "Outputs", MODEL.outputs);
    return;
  }
  panel.append(make("h2", item.op), make("div", item.name, "type"));
  panel.lastChild.style.textAlign = "left";
  listValues(panel, "Inputs", item.inputs, true);
  listValues(panel, "Outputs", item.outputs, false);
  if (item.attributes) section(panel, "Attributes", item.attributes);
  if (item.target) section(panel, "Call", item.target);
  const path = pathOf(item.parent);
  if (path) section(panel, "Module", path);
  if (item.trace) section(panel, "Source", item.trace);
}
function section(panel, title, text) {
  panel.append(make("h3", title), make("pre", text));
}
function listValues(panel, title, values, goesUp) {
  panel.append(make("h3", title));
  for (const value of values.slice(0, 60)) {
    const [name, type] = MODEL.values[value];
    const row = make("div", undefined, "row");
    const text = make("span", name || "(none)");
    const target = goesUp === undefined ? null : goesUp ? MODEL.producers[value] : MODEL.consumers[value][0];
    if (target) {
      text.className = "link";
      text.onclick = () => Graph.reveal(target);
    }
    row.append(text, make("span", type, "type"));
    panel.append(row);
  }
}

function card(title) {
  const element = make("div", undefined, "card");
  element.append(make("h3", title));
  return element;
}

// Draws horizontal bars with their numbers.
function bars(title, entries, format) {
  const element = card(title);
  const rows = entries.slice(0, 24);
  const left = Math.min(230, Math.max(60, ...rows.map(([name]) => widthOf(name, 12))) + 12), step = 23, wide = 520;
  const svg = d3.select(element).append("svg").attr("viewBox", `0 0 ${wide} ${rows.length * step + 6}`).attr("width", "100%");
  const scale = d3.scaleLinear([0, d3.max(rows, (row) => row[1]) || 1], [0, wide - left - 70]);
  rows.forEach(([name, number], i) => {
    const y = i * step + 4;
    svg.append("text").attr("x", left - 8).attr("y", y + 13).attr("text-anchor", "end").text(short(name, 34));
    svg.append("rect").attr("class", "bar").attr("x", left).attr("y", y).attr("rx", 3).attr("height", 16).attr("width", Math.max(1.5, scale(number)));
    svg.append("text").attr("class", "sub").attr("x", left + scale(number) + 7).attr("y", y + 12).text(format(number));
  });
  if (entries.length > rows.length) element.append(make("div", `and ${entries.length - rows.length} more`, "note"));
  return element;
}

function tableOf(columns, rows, isBad) {
  const table = make("table");
  const head = table.createTHead().insertRow();
  for (const column of columns) head.append(make("th", column));
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    if (isBad && isBad(row)) line.className = "bad";
    for (const cell of row) {
      const at = line.insertCell();
      at.textContent = cell === null || cell === undefined ? "" : typeof cell === "number" && !Number.isInteger(cell) ? cell.toPrecision(4) : cell;
      if (typeof cell === "number") at.className = "number";
    }
  }
  return table;
}

function showNumbers() {
  const cards = make("div", undefined, "cards");
  const sorted = (entries) => [...entries].sort((a, b) => b[1] - a[1]);
  const whole = (number) => String(number);
  const add = (title, entries, format) => entries && entries.length && cards.append(bars(title, entries, format));
  add("Seconds per stage", DATA.seconds, (number) => number < 0.1 ? `${(number * 1000).toFixed(1)} ms` : `${number.toFixed(2)} s`);
  if (MODEL) add("ONNX nodes by operator", sorted(d3.rollup(MODEL.items, (each) => each.length, (item) => item.op)), whole);
  add("ATen calls by operator", sorted(DATA.operators), whole);
  add("Rules that fired (changes by pass)", sorted(DATA.passes), whole);
  if (DATA.facts.length) {
    const element = card("Export");
    element.append(tableOf(["", ""], DATA.facts));
    cards.append(element);
  }
  byId("numbers").append(cards);
}

function showComparison() {
  const {columns, rows, bad} = DATA.comparison;
  const isBad = new Set(bad);
  const table = tableOf(columns, rows, (row) => isBad.has(rows.indexOf(row)));
  [...table.tBodies[0].rows].forEach((line, i) => {
    const item = MODEL && MODEL.items.find((each) => rows[i].includes(each.name));
    if (!item) return;
    line.style.cursor = "pointer";
    line.onclick = () => { show("graph"); Graph.reveal(item); };
  });
  byId("comparison").append(table);
}

function showProblems() {
  for (const {kind, title, text, code} of DATA.problems) {
    const element = make("div", undefined, `problem ${kind}`);
    element.append(make("b", title));
    if (text) element.append(make("pre", text));
    if (code) element.append(make("h3", "A lowering to fill in"), make("pre", code));
    byId("problems").append(element);
  }
}

const TABS = [["graph", "Graph", MODEL], ["numbers", "Numbers", true], ["comparison", "Comparison", DATA.comparison],
              ["problems", "Messages", DATA.problems.length]].filter((tab) => tab[2]);
function show(name) {
  for (const [id] of TABS) {
    byId(id).classList.toggle("on", id === name);
    byId(`tab-${id}`).classList.toggle("on", id === name);
  }
}

function start() {
  document.title = `${DATA.title} · onnx_native`;
  document.querySelector("h1").textContent = DATA.title;
  byId("facts").innerHTML = "";
  for (const [name, value] of DATA.summary) byId("facts").append(make("b", value), ` ${name}   `);
  for (const [id, title] of TABS) {
    const tab = make("a", title);
    tab.id = `tab-${id}`;
    tab.onclick = () => show(id);
    if (id === "problems" && DATA.errors) tab.append(make("span", DATA.errors, "count"));
    byId("tabs").append(tab);
  }
  showNumbers();
  if (DATA.comparison) showComparison();
  showProblems();
  show(TABS.some(([id]) => id === state.get("tab")) ? state.get("tab") : MODEL ? "graph" : "problems");
  if (!MODEL) return;
  const definitions = d3.select("#canvas > svg").append("defs").append("marker");
  definitions.attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4).attr("markerWidth", 7)
    .attr("markerHeight", 7).attr("orient", "auto").append("path").attr("d", "M0,0.5 L8,4 L0,7.5 Z").attr("fill", "#a3adbf");
  Graph.start();
  showDetail(null);
  const query = byId("query");
  query.oninput = () => search(query.value);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== query) { event.preventDefault(); query.focus(); }
  });
  query.value = state.get("find") || "";
  const found = search(query.value);
  const wanted = state.has("node") ? MODEL.items.find((item) => item.name === state.get("node")) : query.value && found[0];
  if (wanted) Graph.reveal(wanted);
}

start();
document.body.dataset.seconds = (performance.now() / 1000).toFixed(3);
