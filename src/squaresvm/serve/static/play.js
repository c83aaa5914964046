import { ask, byId, counted, element, figure, fill, milliseconds, percent, plain, power } from "./common.js";
import { Board } from "./board.js";

const canvas = byId("board");
const board = new Board(canvas);
const KEY = "squaresvm-board";
const SLIDERS = ["C", "gamma", "A"];
let busy = false;
let next = null; // The latest that waits; a drag leaves older ones out.

async function play(action, facts = {}) {
  if (busy) {
    next = [action, facts];
    return;
  }
  busy = true;
  try {
    const found = await ask("/play/board", { board: sessionStorage.getItem(KEY), action, ...facts });
    sessionStorage.setItem(KEY, found.board);
    byId("problem").textContent = "";
    show(found);
  } catch (error) {
    byId("problem").textContent = error.message;
  }
  busy = false;
  canvas.dataset.requests = String(Number(canvas.dataset.requests || 0) + 1);
  if (next) {
    const [then, more] = next;
    next = null;
    await play(then, more);
  }
}

function show(found) {
  board.picture = found;
  board.draw();
  const model = found.model, counts = [-1, 1].map((label) => found.points.filter((point) => point.label === label).length);
  canvas.setAttribute("aria-label", `Board of points: ${counts[0]} blue, ${counts[1]} orange.`);
  if (model) {
    const certificate = model.certificate;
    fill("figures", figure(counted(found.points.length, "point"), `${model.support} support the decision`),
      figure(model.loo_accuracy === null ? "–" : percent(model.loo_accuracy), "exact leave-one-out accuracy"),
      figure(power(certificate.residual), `residual: ${certificate.status}`),
      figure(plain(certificate.objective, 4), `objective; gap ${power(certificate.gap)}`));
  } else {
    fill("figures", element("p", { className: "soft" }, "A model needs points of both colours."));
  }
  showTimes(found.last);
  read(spot);
  const difference = found.check;
  byId("said").textContent = difference ? `A model that was fitted from scratch to these ${difference.rows} points, in ${milliseconds(difference.seconds)}, differs by at most ${power(difference.difference)} in its decision values.`
    : difference === null ? "There is no model to check." : "";
  take(found.settings);
}

let spot = null; // Where the board was pointed at last.

function read(place) {
  const model = board.picture.model;
  spot = place;
  byId("here").textContent = model ? "Point at the board to read its values." : "";
  if (!model || !spot) return;
  const [x, y] = spot;
  const value = (number, digits = 3) => number.toFixed(digits).replace("-", "−");
  const parts = [`Here: decision value ${value(board.at(model.decision, x, y), 2)}`];
  if (model.probability) parts.push(`probability of orange ${percent(board.at(model.probability, x, y))}`);
  const point = board.nearest(...board.toScreen(x, y), 12);
  if (point) parts.push(`support value ${plain(point.support, 3)}`);
  if (point && point.left_out !== undefined) parts.push(`left out ${value(point.left_out, 2)}`);
  byId("here").textContent = `${parts.join(", ")}.`;
}

function showTimes(last) {
  if (!last.action) {
    fill("times", element("p", { className: "soft" }, "No request yet."));
    return;
  }
  const lines = [[last.action, last.seconds]];
  if (last.refit_seconds) lines.push(["a refit", last.refit_seconds]);
  const most = Math.max(...lines.map((line) => line[1]));
  fill("times", ...lines.map(([name, seconds]) => {
    const bar = element("i");
    bar.style.width = `${Math.max(2, (100 * seconds) / most)}%`;
    return element("div", { className: "bar" }, element("span", {}, name), bar, element("b", {}, milliseconds(seconds)));
  }));
}

// Settings ---------------------------------------------------------------------------------------------

const number = (id) => Number((10 ** Number(byId(id).value)).toPrecision(3));

function labels() {
  for (const id of SLIDERS) {
    byId(id).nextElementSibling.textContent = plain(number(id), 3);
    byId(id).setAttribute("aria-valuetext", plain(number(id), 3));
  }
  byId("gamma-label").hidden = byId("kernel").value === "linear";
  byId("A-label").hidden = !["RelaxedLSSVC", "LagrangianSVC"].includes(byId("estimator").value);
}

function take(settings) {
  byId("estimator").value = settings.estimator;
  byId("kernel").value = settings.kernel;
  for (const id of SLIDERS) {
    if (document.activeElement !== byId(id)) byId(id).value = Math.log10(settings[id]).toFixed(1);
  }
  labels();
}

function set() {
  labels();
  play("set", { estimator: byId("estimator").value, kernel: byId("kernel").value, C: number("C"), gamma: number("gamma"), A: number("A") });
}

for (const id of SLIDERS) byId(id).addEventListener("input", set);
for (const id of ["estimator", "kernel"]) byId(id).addEventListener("change", set);

// Mouse and touch --------------------------------------------------------------------------------------

const tool = () => document.querySelector("input[name=tool]:checked").value;
let drag = null;

function at(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left - 1, event.clientY - box.top - 1];
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  const place = at(event), point = board.nearest(...place, event.pointerType === "touch" ? 22 : 12);
  board.cursor = null;
  if (point && tool() === "remove") play("remove", { id: point.id });
  else if (point) {
    drag = { id: point.id, moved: false, from: place };
    canvas.setPointerCapture(event.pointerId);
  } else if (tool() !== "remove") {
    const [x, y] = board.toPlane(...place);
    play("add", { points: [{ x, y, label: Number(tool()) }] });
  }
});

canvas.addEventListener("pointermove", (event) => {
  read(board.toPlane(...at(event)));
  if (!drag) return;
  const place = at(event);
  if (!drag.moved && Math.hypot(place[0] - drag.from[0], place[1] - drag.from[1]) < 3) return;
  drag.moved = true;
  const [x, y] = board.toPlane(...place), point = board.picture.points.find((one) => one.id === drag.id);
  if (!point) return;
  [point.x, point.y] = [x, y];
  board.held = drag.id;
  board.draw();
  play("move", { id: drag.id, x, y });
});

for (const kind of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(kind, () => {
    drag = null;
    board.held = null;
    board.draw();
  });
}

canvas.addEventListener("contextmenu", (event) => {
  event.preventDefault();
  const point = board.nearest(...at(event), 12);
  if (point) play("remove", { id: point.id });
});

// Keyboard ---------------------------------------------------------------------------------------------

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

canvas.addEventListener("keydown", (event) => {
  const cursor = board.cursor || [0, 0];
  const under = board.nearest(...board.toScreen(...cursor), 16);
  if (event.key in ARROWS) {
    const step = event.shiftKey ? 0.01 : 0.05;
    board.cursor = cursor.map((value, axis) => Math.max(-1, Math.min(1, value + step * ARROWS[event.key][axis])));
    if (board.held !== null) play("move", { id: board.held, x: board.cursor[0], y: board.cursor[1] });
  } else if (event.key === "1" || event.key === "2") {
    board.cursor = cursor;
    play("add", { points: [{ x: cursor[0], y: cursor[1], label: event.key === "1" ? -1 : 1 }] });
  } else if (event.key === " ") {
    board.held = board.held === null && under ? under.id : null;
    board.cursor = cursor;
  } else if (event.key === "Delete" || event.key === "Backspace") {
    if (under) play("remove", { id: under.id });
    board.held = null;
  } else return;
  event.preventDefault();
  board.draw();
  if (board.cursor) read(board.cursor);
});

canvas.addEventListener("focus", () => {
  if (!canvas.matches(":focus-visible")) return;
  board.cursor = board.cursor || [0, 0];
  board.draw();
});
canvas.addEventListener("blur", () => {
  board.cursor = board.held = null;
  board.draw();
});

// Data -------------------------------------------------------------------------------------------------

byId("load").addEventListener("click", () => play("sample", { name: byId("sample").value }));
byId("clear").addEventListener("click", () => play("clear"));
byId("check").addEventListener("click", () => play("check"));
byId("file").addEventListener("change", async () => {
  const file = byId("file").files[0];
  if (!file) return;
  try {
    await play("replace", { points: points(await file.text()) });
  } catch (error) {
    byId("problem").textContent = `${file.name}: ${error.message}`;
  }
  byId("file").value = "";
});

function points(text) {
  const [head, ...lines] = text.split(/\r?\n/).filter((line) => line.trim()).map((line) => line.split(/[,;\t]/).map((cell) => cell.trim()));
  const columns = ["x", "y", "label"].map((name) => head.map((cell) => cell.toLowerCase()).indexOf(name));
  if (columns.includes(-1)) throw new Error("the first line must name the columns x, y and label");
  const rows = lines.map((line) => [Number(line[columns[0]]), Number(line[columns[1]]), line[columns[2]]]);
  const wrong = rows.findIndex((row) => !row.slice(0, 2).every(Number.isFinite) || !row[2]);
  if (wrong >= 0) throw new Error(`row ${wrong + 1} does not have two numbers and a label`);
  const names = [...new Set(rows.map((row) => row[2]))].sort();
  if (names.length !== 2) throw new Error(`there must be two different labels; there are ${names.length}`);
  const middle = [0, 1].map((axis) => (Math.max(...rows.map((row) => row[axis])) + Math.min(...rows.map((row) => row[axis]))) / 2);
  const reach = Math.max(1e-300, ...rows.flatMap((row) => [0, 1].map((axis) => Math.abs(row[axis] - middle[axis]))));
  return rows.map((row) => ({ x: (0.92 * (row[0] - middle[0])) / reach, y: (0.92 * (row[1] - middle[1])) / reach, label: row[2] === names[0] ? -1 : 1 }));
}

labels();
await play("show");
if (!board.picture.points.length) await play("sample", { name: "moons" });
