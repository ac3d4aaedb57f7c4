"use strict";
// The timeline and the table of a report. Everything that comes from the records is written as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("timeline");
  const tip = document.getElementById("tip");
  const context = canvas.getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const HUES = [212, 168, 262, 330, 190, 40, 96, 290];
  const AXIS = 24, SPACE = 6;
  const ROW = data.rows.length <= 24 ? 24 : data.rows.length <= 200 ? 16 : 12;
  const FONT = 'system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif';
  const GUTTER = 132;
  const TALLEST = 560;

  for (const row of data.rows) {
    let at = 0;
    row.begin = row.begin.map((step) => (at += step));
    // An operation ends where it ended, or not at all. The latest end so far lets a search stop early.
    row.end = row.begin.map((begin, n) => (row.lasted[n] < 0 ? data.end : begin + row.lasted[n]));
    let latest = -Infinity;
    row.latest = row.end.map((end) => (latest = Math.max(latest, end)));
  }

  const bounds = {
    from: data.rows.reduce((least, row) => Math.min(least, row.begin.length ? row.begin[0] : least), 0),
    to: Math.max(data.end, 1),
  };
  const whole = () => ({ from: bounds.from - (bounds.to - bounds.from) * 0.02, to: bounds.to + (bounds.to - bounds.from) * 0.02 });
  const fault = () => ({ from: data.view[0], to: data.view[1] });
  let view = fault(), top = 0, selected = null, size = { width: 0, height: 0 };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Pale, so that what has not ended stands out; the text on it stays readable.
  const groupColor = (group) => `hsl(${HUES[group] ?? 210} ${group < HUES.length ? 42 : 8}% ${dark.matches ? 30 : 84}%)`;
  const x = (time) => GUTTER + ((time - view.from) / (view.to - view.from)) * (size.width - GUTTER);
  const timeAt = (px) => view.from + ((px - GUTTER) / (size.width - GUTTER)) * (view.to - view.from);

  function duration(us) {
    if (us < 1e3) return `${+us.toPrecision(3)} µs`;
    if (us < 1e6) return `${+(us / 1e3).toPrecision(3)} ms`;
    if (us < 6e7) return `${+(us / 1e6).toPrecision(3)} s`;
    const seconds = Math.round(us / 1e6);
    return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s` : `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} min`;
  }

  function resize() {
    const width = canvas.parentElement.clientWidth;
    const height = Math.min(AXIS + data.rows.length * ROW + SPACE, TALLEST);
    const scale = devicePixelRatio || 1;
    size = { width, height };
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    draw();
  }

  function firstVisible(row) {
    let low = 0, high = row.latest.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.latest[middle] < view.from) low = middle + 1; else high = middle;
    }
    return low;
  }

  function drawAxis(ink, soft, line) {
    const span = view.to - view.from;
    const rough = span / Math.max((size.width - GUTTER) / 110, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    context.textAlign = "center";
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      const px = Math.round(x(tick)) + 0.5;
      context.fillStyle = line;
      context.fillRect(px, AXIS - 4, 1, size.height);
      context.fillStyle = soft;
      if (px < size.width - 30) context.fillText(Math.abs(tick) < step / 2 ? "0" : duration(tick), px, 13);
    }
    context.textAlign = "left";
  }

  // The first text that fits; else as much of the last as does.
  function fitting(texts, width) {
    for (const text of texts) if (context.measureText(text).width <= width) return text;
    let text = texts[texts.length - 1];
    while (text && context.measureText(`${text}…`).width > width) text = text.slice(0, -1);
    return text ? `${text}…` : "";
  }

  // A rank that is in nothing: the gap is what one looks for.
  function drawQuiet(row, y, thick, colors) {
    const last = row.latest[row.latest.length - 1];
    const left = Math.max(x(last), GUTTER) + 3, right = Math.min(x(data.end), size.width - 2);
    if (!row.mark || last === undefined || last >= data.end || right - left < 40) return;
    context.strokeStyle = context.fillStyle = row.mark === "root cause" ? colors.bad : colors.soft;
    context.setLineDash([4, 3]);
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, y + 0.5, right - left, thick - 1);
    context.setLineDash([]);
    if (ROW < 16) return;
    context.font = `600 11px ${FONT}`;
    const idle = `${row.gone ? "process ended; " : ""}in no operation`;
    context.fillText(fitting([`${idle} for ${duration(data.end - last)}`, idle], right - left - 12), left + 7, y + thick / 2 + 4);
  }

  function drawRow(row, number, y, colors) {
    const thick = ROW - (ROW > 12 ? 5 : 2);
    let painted = -1, drawn = 0;
    for (let n = firstVisible(row); n < row.begin.length && row.begin[n] <= view.to; n++) {
      if (row.end[n] < view.from) continue;
      const what = data.whats[row.what[n]];
      const left = Math.max(x(row.begin[n]), GUTTER), right = Math.min(x(row.end[n]), size.width);
      // Narrower than a pixel and next to one that is there already: nobody could tell them apart.
      if (right <= painted && what.look === "done") continue;
      const wide = Math.max(right - left, what.look === "done" ? 1 : 2);
      painted = Math.max(painted, left + wide);
      drawn++;
      context.fillStyle = what.look === "done" ? groupColor(what.group) : what.look === "open" ? colors.open : colors.bad;
      // A line of background between neighbours of one colour.
      context.fillRect(left, y, wide > 4 ? wide - 1 : wide, thick);
      if (what.look === "open") {  // not by colour alone: stripes say that it has not ended
        context.save();
        context.beginPath();
        context.rect(left, y, wide, thick);
        context.clip();
        context.strokeStyle = colors.card;
        context.globalAlpha = 0.45;
        context.lineWidth = 2;
        for (let stripe = left - thick; stripe < left + wide; stripe += 8) {
          context.beginPath();
          context.moveTo(stripe, y + thick);
          context.lineTo(stripe + thick, y);
          context.stroke();
        }
        context.restore();
      }
      if (ROW >= 16 && wide > 46) {
        const name = `${what.kind} ${data.groups[what.group]}[${row.sequence[n] || "?"}]`;
        context.font = `${what.look === "open" ? "600 " : ""}11px ${FONT}`;
        const label = fitting([name, what.kind], wide - 10);
        if (what.look === "open") {
          context.fillStyle = colors.open;
          context.fillRect(left, y, Math.min(context.measureText(label).width + 12, wide), thick);
        }
        context.fillStyle = what.look === "done" ? colors.ink : what.look === "open" ? "#241300" : colors.card;
        context.fillText(label, left + 6, y + thick / 2 + 4);
      }
      if (selected && selected.row === number && selected.n === n) {
        context.strokeStyle = colors.ink;
        context.lineWidth = 2;
        context.strokeRect(left, y - 1, wide, thick + 2);
      }
    }
    return drawn;
  }

  function draw() {
    const colors = { ink: style("--ink"), soft: style("--soft"), line: style("--faint"), card: style("--card"), bad: style("--bad"), open: style("--open"), root: style("--bad-soft") };
    context.clearRect(0, 0, size.width, size.height);
    context.fillStyle = colors.card;
    context.fillRect(0, 0, size.width, size.height);
    context.font = `11px ${FONT}`;
    top = Math.max(0, Math.min(top, AXIS + data.rows.length * ROW + SPACE - size.height));
    const first = Math.floor(top / ROW), last = Math.min(data.rows.length, Math.ceil((top + size.height) / ROW));
    let operations = 0;
    for (let n = first; n < last; n++) {
      if (data.rows[n].mark !== "root cause") continue;
      context.fillStyle = colors.root;
      context.fillRect(0, AXIS + n * ROW - top, size.width, ROW);
    }
    drawAxis(colors.ink, colors.soft, colors.line);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, size.width, size.height);
    context.clip();
    for (let n = first; n < last; n++) {
      const y = AXIS + n * ROW - top;
      operations += drawRow(data.rows[n], n, y + (ROW > 12 ? 2 : 1), colors);
      drawQuiet(data.rows[n], y + (ROW > 12 ? 2 : 1), ROW - (ROW > 12 ? 5 : 2), colors);
      const row = data.rows[n], mark = row.mark;
      context.font = `${mark === "root cause" ? "600 " : ""}${ROW > 12 ? 12 : 10}px ${FONT}`;
      context.fillStyle = mark === "root cause" ? colors.bad : mark ? colors.ink : colors.soft;
      context.fillText(`${row.rank < 0 ? "rank ?" : `rank ${row.rank}`}${mark ? ` · ${mark}` : ""}`, 8, y + ROW / 2 + 4, GUTTER - 14);
    }
    context.restore();
    context.fillStyle = colors.line;
    context.fillRect(GUTTER - 1, 0, 1, size.height);
    const all = AXIS + data.rows.length * ROW + SPACE;
    if (all > size.height) {
      context.fillStyle = colors.soft;
      const track = size.height - AXIS, thumb = Math.max((track * size.height) / all, 24);
      context.fillRect(size.width - 5, AXIS + ((track - thumb) * top) / (all - size.height), 4, thumb);
    }
    canvas.dataset.rows = String(last - first);
    canvas.dataset.operations = String(operations);
  }

  function hit(px, py) {
    const number = Math.floor((py - AXIS + top) / ROW);
    const row = data.rows[number];
    if (!row || py < AXIS || px < GUTTER) return null;
    const time = timeAt(px), near = (2 * (view.to - view.from)) / (size.width - GUTTER);
    for (let n = row.begin.length - 1; n >= 0; n--) {
      if (row.latest[n] < time - near) break;
      if (row.begin[n] <= time + near && row.end[n] >= time - near) return { row: number, n };
    }
    return null;
  }

  function tell(found, px, py) {
    if (!found) {
      tip.hidden = true;
      return;
    }
    const row = data.rows[found.row], what = data.whats[row.what[found.n]];
    const open = row.lasted[found.n] < 0, started = row.started[found.n];
    const lines = [
      ["rank", `${row.rank < 0 ? "?" : row.rank}${row.host ? ` on ${row.host}` : ""}${row.mark ? ` (${row.mark})` : ""}`],
      ["state", what.state + (open && what.look === "open" ? ` for ${duration(data.end - row.begin[found.n])}` : "")],
      ["took", open ? "" : duration(row.lasted[found.n])],
      ["waited to start", started > 0 ? duration(started) : ""],
      ["moves", what.bytes],
      ["called at", what.site],
      ["error", what.error],
    ].filter(([, value]) => value);
    tip.replaceChildren();
    const title = document.createElement("b");
    title.textContent = `${what.text} in ${data.groups[what.group]}, number ${row.sequence[found.n] || "?"}`;
    const list = document.createElement("dl");
    for (const [name, value] of lines) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
    tip.append(title, list);
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(px + 14, size.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${py + 18}px`;
  }

  function zoom(factor, around) {
    const span = Math.min(Math.max((view.to - view.from) * factor, 1), (bounds.to - bounds.from) * 4 + 10);
    const share = (around - view.from) / (view.to - view.from);
    view = { from: around - share * span, to: around + (1 - share) * span };
    draw();
  }

  const middle = () => (view.from + view.to) / 2;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { at: place(event), view: { ...view }, top };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => (drag = null));
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => tell(null));
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    if (drag) {
      const moved = ((px - drag.at[0]) / (size.width - GUTTER)) * (drag.view.to - drag.view.from);
      view = { from: drag.view.from - moved, to: drag.view.to - moved };
      top = drag.top - (py - drag.at[1]);
      tell(null);
    } else {
      selected = hit(px, py);
      tell(selected, px, py);
    }
    draw();
  });
  canvas.addEventListener("wheel", (event) => {
    const [px] = place(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(1.0015 ** event.deltaY, timeAt(Math.max(px, GUTTER)));
    } else {
      const before = top;
      top += event.deltaY;
      draw();
      if (top !== before) event.preventDefault();
    }
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "+" || event.key === "=") return zoom(0.6, middle());
    if (event.key === "-") return zoom(1 / 0.6, middle());
    if (!(event.key in steps)) return undefined;
    event.preventDefault();
    const [down, along] = steps[event.key];
    const number = Math.min(Math.max((selected ? selected.row : 0) + down, 0), data.rows.length - 1);
    const row = data.rows[number];
    if (!row || !row.begin.length) return undefined;
    const start = selected && !down ? selected.n + along : row.begin.length - 1;
    selected = { row: number, n: Math.min(Math.max(start, 0), row.begin.length - 1) };
    const begin = row.begin[selected.n];
    if (begin < view.from || begin > view.to) view = { from: begin - (view.to - view.from) / 2, to: begin + (view.to - view.from) / 2 };
    const y = number * ROW;
    if (y < top) top = y;
    if (y + ROW + AXIS > top + size.height) top = y + ROW + AXIS - size.height;
    draw();
    return tell(selected, x(row.begin[selected.n]), AXIS + y - top + ROW - 12);
  });
  const click = (id, action) => document.getElementById(id).addEventListener("click", action);
  click("view-fault", () => { view = fault(); draw(); });
  click("view-all", () => { view = whole(); draw(); });
  click("zoom-in", () => zoom(0.6, middle()));
  click("zoom-out", () => zoom(1 / 0.6, middle()));

  function legend() {
    const shown = data.groups.slice(0, HUES.length).map((label, n) => [groupColor(n), label]);
    if (data.groups.length > HUES.length) shown.push([groupColor(HUES.length), `${data.groups.length - HUES.length} more groups`]);
    if (data.whats.some((what) => what.look === "open")) shown.push([`repeating-linear-gradient(135deg, ${style("--open")} 0 3px, ${style("--card")} 3px 4.5px)`, "has not ended"]);
    if (data.whats.some((what) => what.look === "bad")) shown.push([style("--bad"), "failed"]);
    document.getElementById("legend").replaceChildren(...shown.map(([color, label]) => {
      const item = document.createElement("span"), swatch = document.createElement("i");
      swatch.style.background = color;
      item.append(swatch, label);
      return item;
    }));
  }

  function table() {
    const body = document.querySelector("#ranks tbody"), rows = [...body.rows];
    const heads = [...document.querySelectorAll("#ranks th")];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
      rows.sort((a, b) => key(a).localeCompare(key(b), "en", { numeric: true }) * (down ? -1 : 1));
      body.append(...rows);
    }));
    const filter = document.getElementById("filter"), shown = document.getElementById("shown"), said = shown.textContent;
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      let count = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        count += row.hidden ? 0 : 1;
      }
      shown.textContent = wanted ? `${count} of ${rows.length} rows match.` : said;
    });
  }

  table();
  legend();
  resize();
  new ResizeObserver(resize).observe(canvas.parentElement);
  dark.addEventListener("change", () => { legend(); draw(); });
})();
