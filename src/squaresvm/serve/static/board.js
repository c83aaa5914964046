// Draws the board: decision values as colour, boundary and margins as lines, points with rings.

const PAD = 1.04; // What is shown reaches a little beyond the square.

function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { one: read("--one"), two: read("--two"), ink: read("--ink"), soft: read("--soft"), card: read("--card"), hole: read("--hole") };
}

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

export class Board {
  constructor(canvas) {
    this.canvas = canvas;
    this.picture = { points: [], model: null };
    this.cursor = null;
    this.held = null;
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  get size() { return this.canvas.clientWidth; }

  toScreen(x, y) { return [(this.size * (x / PAD + 1)) / 2, (this.size * (1 - y / PAD)) / 2]; }

  toPlane(left, top) {
    const limit = (value) => Math.max(-1, Math.min(1, value));
    return [limit(PAD * ((2 * left) / this.size - 1)), limit(PAD * (1 - (2 * top) / this.size))];
  }

  nearest(left, top, reach) {
    let found = null, best = reach;
    for (const point of this.picture.points) {
      const [x, y] = this.toScreen(point.x, point.y);
      const distance = Math.hypot(x - left, y - top);
      if (distance <= best) [found, best] = [point, distance];
    }
    return found;
  }

  // What the model says at a point of the plane, between the points of its grid.
  at(values, x, y) {
    const n = this.picture.model.grid, place = (v) => Math.min(n - 1.001, Math.max(0, ((v / PAD + 1) / 2) * (n - 1)));
    const [column, row] = [Math.floor(place(x)), Math.floor(place(y))], [right, up] = [place(x) - column, place(y) - row];
    const line = (r) => (1 - right) * values[r * n + column] + right * values[r * n + column + 1];
    return (1 - up) * line(row) + up * line(row + 1);
  }

  draw() {
    const scale = devicePixelRatio || 1, size = this.size;
    if (!size) return;
    this.canvas.width = this.canvas.height = Math.round(size * scale);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const colour = colours();
    pen.fillStyle = colour.card;
    pen.fillRect(0, 0, size, size);
    const model = this.picture.model;
    if (model) {
      this.shade(pen, model, colour);
      this.contour(pen, model, 0, { style: colour.ink, width: 2.2, dash: [] });
      for (const level of [-1, 1]) this.contour(pen, model, level, { style: colour.ink, width: 1.1, dash: [5, 5] });
    }
    this.dots(pen, colour);
    if (this.cursor) this.crossHair(pen, colour);
  }

  shade(pen, model, colour) {
    const n = model.grid, image = new ImageData(n, n);
    const [one, two, base] = [channels(colour.one), channels(colour.two), channels(colour.card)];
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        const at = (n - 1 - row) * n + column;
        const p = model.probability ? model.probability[at] : 1 / (1 + Math.exp(-2 * model.decision[at]));
        const side = p > 0.5 ? two : one, share = 0.06 + 0.62 * Math.abs(p - 0.5);
        for (let c = 0; c < 3; c++) image.data[4 * (row * n + column) + c] = base[c] + share * (side[c] - base[c]);
        image.data[4 * (row * n + column) + 3] = 255;
      }
    }
    const small = document.createElement("canvas");
    small.width = small.height = n;
    small.getContext("2d").putImageData(image, 0, 0);
    const cell = this.size / (n - 1);
    pen.imageSmoothingEnabled = true;
    pen.drawImage(small, -cell / 2, -cell / 2, n * cell, n * cell);
  }

  // Marching squares: where a level crosses the sides of a cell; crossings are joined to lines, which can be dashed.
  contour(pen, model, level, { style, width, dash }) {
    const n = model.grid, step = (2 * PAD) / (n - 1), ends = new Map();
    const height = (at) => model.decision[at] - level;
    const crossing = (from, to) => {
      const key = Math.min(from, to) * 2 + (Math.abs(to - from) > 1), share = height(from) / (height(from) - height(to));
      if (height(from) > 0 === height(to) > 0) return null;
      if (!ends.has(key)) {
        const axis = (one, two) => -PAD + step * (one + share * (two - one));
        const [x, y] = [axis(from % n, to % n), axis(Math.floor(from / n), Math.floor(to / n))];
        ends.set(key, { place: this.toScreen(x, y), links: [] });
      }
      return ends.get(key);
    };
    for (let at = 0; at < n * (n - 1); at++) {
      if (at % n === n - 1) continue;
      const corner = [at, at + 1, at + n + 1, at + n];
      const found = corner.map((from, side) => crossing(from, corner[(side + 1) % 4])).filter(Boolean);
      for (let pair = 0; pair + 1 < found.length; pair += 2) {
        found[pair].links.push(found[pair + 1]);
        found[pair + 1].links.push(found[pair]);
      }
    }
    pen.beginPath();
    for (const open of [true, false]) { // Lines that end at the edge first; what is left is closed.
      for (let end of ends.values()) {
        if (!end.links.length || (open && end.links.length > 1)) continue;
        pen.moveTo(...end.place);
        while (end.links.length) {
          const next = end.links.pop();
          next.links.splice(next.links.indexOf(end), 1);
          pen.lineTo(...next.place);
          end = next;
        }
      }
    }
    pen.setLineDash(dash);
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.stroke();
    pen.setLineDash([]);
  }

  dots(pen, colour) {
    const points = this.picture.points, unit = Math.max(3.2, this.size / 130);
    const most = Math.max(1e-12, ...points.map((point) => point.support || 0));
    for (const point of points) {
      const [x, y] = this.toScreen(point.x, point.y), own = point.label > 0 ? colour.two : colour.one;
      if (point.support > 0) {
        pen.beginPath();
        pen.arc(x, y, unit * (1.3 + 2.6 * Math.sqrt(point.support / most)), 0, 7);
        pen.strokeStyle = own;
        pen.lineWidth = 1.4;
        pen.stroke();
      }
      pen.beginPath();
      if (point.label > 0) pen.rect(x - unit * 0.9, y - unit * 0.9, 1.8 * unit, 1.8 * unit);
      else pen.arc(x, y, unit, 0, 7);
      pen.fillStyle = own;
      pen.fill();
      pen.strokeStyle = point.id === this.held ? colour.ink : colour.hole;
      pen.lineWidth = point.id === this.held ? 3 : 1.2;
      pen.stroke();
      if (point.left_out !== undefined && point.left_out > 0 !== point.label > 0) {
        pen.beginPath();
        for (const side of [-1, 1]) {
          pen.moveTo(x - unit * 1.9, y - side * unit * 1.9);
          pen.lineTo(x + unit * 1.9, y + side * unit * 1.9);
        }
        pen.strokeStyle = colour.ink;
        pen.lineWidth = 1.3;
        pen.stroke();
      }
    }
  }

  crossHair(pen, colour) {
    const [x, y] = this.toScreen(...this.cursor);
    pen.beginPath();
    for (const [dx, dy] of [[1, 0], [0, 1]]) {
      pen.moveTo(x - 14 * dx, y - 14 * dy);
      pen.lineTo(x + 14 * dx, y + 14 * dy);
    }
    pen.strokeStyle = colour.ink;
    pen.lineWidth = 2;
    pen.stroke();
  }
}
