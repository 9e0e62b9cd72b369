// The graph of the report: groups of nodes, nested as the modules are, and the edges of one level.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const MAX_CHILDREN = 60;  // of a group; more are put into parts
const PART = 30;

// A group has children; a node has an operator. Both have a parent and a depth.
class Item {
  constructor(name, parent) {
    this.name = name;
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : 0;
    this.children = null;
    this.open = false;
    this.count = 1;
  }
  isIn(group) {
    let at = this;
    while (at && at.depth > group.depth) at = at.parent;
    return at === group;
  }
  childIn(group) {
    let at = this;
    while (at.depth > group.depth + 1) at = at.parent;
    return at;
  }
}

function groupOf(name, parent, kind) {
  const group = new Item(name, parent);
  group.children = [];
  group.kind = kind || "";
  return group;
}

// Returns the root of the groups; sets `items` to the nodes in the order of the file.
function readGraph(graph) {
  const root = groupOf("", null, "model");
  const groups = new Map();
  const items = [];
  const scope = (number) => {
    if (number < 0) return root;
    let group = groups.get(number);
    if (!group) {
      const [parent, name, kind] = graph.scopes[number];
      const around = scope(parent);
      group = groupOf(name, around, kind);
      groups.set(number, group);
      around.children.push(group);
    }
    return group;
  };
  graph.nodes.forEach((row, number) => {
    const [op, name, at, inputs, outputs, attributes, target, trace] = row;
    const parent = scope(at);
    const item = new Item(name, parent);
    Object.assign(item, {number, op: graph.ops[op], inputs, outputs, attributes,
                         target: target < 0 ? "" : graph.targets[target],
                         trace: trace < 0 ? "" : graph.traces[trace]});
    parent.children.push(item);
    items.push(item);
  });
  const producers = new Array(graph.values.length).fill(null);
  const consumers = graph.values.map(() => []);
  for (const item of items) {
    for (const value of item.outputs) producers[value] = item;
    for (const value of item.inputs) consumers[value].push(item);
  }
  finish(root);
  return {root, items, producers, consumers, values: graph.values,
          inputs: graph.inputs, outputs: graph.outputs, weights: new Set(graph.weights)};
}

// Splits large groups into parts, drops groups around a single group, and counts.
function finish(group) {
  const children = group.children;
  for (const child of children) if (child.children) finish(child);
  let parts = children;
  while (parts.length > MAX_CHILDREN) {
    const next = [];
    for (let i = 0; i < parts.length; i += PART) {
      const part = groupOf("", group, "part");
      part.children = parts.slice(i, i + PART);
      for (const child of part.children) child.parent = part;
      part.name = `part ${next.length + 1}`;
      next.push(part);
    }
    parts = next;
  }
  group.children = parts;
  group.count = 0;
  for (const child of group.children) {
    if (child.kind === "part" && child.count === 1)
      child.count = child.children.reduce((sum, each) => sum + each.count, 0);
    group.count += child.count;
  }
  if (!group.parent) setDepths(group);
}

function setDepths(group) {
  for (const child of group.children) {
    child.parent = group;
    child.depth = group.depth + 1;
    if (child.children) {
      if (child.kind === "part")
        child.count = child.children.reduce((sum, each) => sum + each.count, 0);
      setDepths(child);
    }
  }
}

// Returns the nodes of a group.
function nodesOf(group, found = []) {
  for (const child of group.children) child.children ? nodesOf(child, found) : found.push(child);
  return found;
}

// Returns what one level shows: its children, the ports of values from outside and to the outside,
// and the edges [from, to, values].
function levelOf(model, group) {
  const edges = new Map();
  const ins = new Map(), outs = new Map();
  const ids = new Map(group.children.map((child, i) => [child, `n${i}`]));
  const add = (from, to, value) => {
    const key = `${from} ${to}`;
    let edge = edges.get(key);
    if (!edge) edges.set(key, edge = {from, to, values: new Set()});
    edge.values.add(value);
  };
  const isOutput = new Set(model.outputs);
  for (const item of group.cachedNodes ??= nodesOf(group)) {
    const here = item.childIn(group);
    for (const value of item.inputs) {
      const producer = model.producers[value];
      if (producer && producer.isIn(group)) {
        const there = producer.childIn(group);
        if (there !== here) add(ids.get(there), ids.get(here), value);
      } else if (producer || !model.weights.has(value)) {
        if (!ins.has(value)) ins.set(value, `i${ins.size}`);
        add(ins.get(value), ids.get(here), value);
      }
    }
    for (const value of item.outputs) {
      const leaves = isOutput.has(value) || model.consumers[value].some((user) => !user.isIn(group));
      if (!leaves) continue;
      if (!outs.has(value)) outs.set(value, `o${outs.size}`);
      add(ids.get(here), outs.get(value), value);
    }
  }
  return {ids, ins: merged(ins, edges, "from"), outs: merged(outs, edges, "to"), edges: [...edges.values()]};
}

// Merges many ports of one side into a single one.
function merged(ports, edges, side) {
  if (ports.size <= 8) return [...ports].map(([value, id]) => ({id, values: [value]}));
  const id = side === "from" ? "i" : "o";
  const old = new Set(ports.values());
  for (const [key, edge] of [...edges]) {
    if (!old.has(edge[side])) continue;
    edges.delete(key);
    edge[side] = id;
    const next = `${edge.from} ${edge.to}`;
    const known = edges.get(next);
    if (known) for (const value of edge.values) known.values.add(value);
    else edges.set(next, edge);
  }
  return [{id, values: [...ports.keys()]}];
}

// The text of the types of some values, for an edge.
function typesText(model, values) {
  const list = [...values];
  const types = new Set(list.map((value) => model.values[value][1]).filter(Boolean));
  if (types.size === 0) return list.length > 1 ? `${list.length} values` : "";
  const [first] = types;
  if (types.size === 1) return list.length > 1 ? `${list.length} × ${first}` : first;
  return `${list.length} values`;
}

const FAMILIES = [
  ["#3457d5", /^(MatMul|Gemm|Einsum|Conv|ConvTranspose|FusedMatMul|MatMulNBits|.*Attention.*|LSTM|GRU|RNN)/],
  ["#8b46c9", /Norm|^Softmax|^LogSoftmax|Reduce|Pool|^ArgM|^TopK|^CumSum/],
  ["#0e9384", /^(Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Neg|Abs|Relu|.*Relu|.*Gelu.*|Sigmoid|Tanh|Erf|Clip|Sin|Cos|Max|Min|.*Swish|Where|Not|And|Or|Equal|Less.*|Greater.*|Mish|Reciprocal|Sum|Mod)$/],
  ["#c4320a", /^(If|Loop|Scan|Sequence.*)/],
  ["#b7791f", /^(Gather.*|Scatter.*|OneHot|NonZero|Embed.*|RotaryEmbedding)/],
];
function colorOf(op) {
  for (const [color, pattern] of FAMILIES) if (pattern.test(op)) return color;
  return "#7a8599";
}
