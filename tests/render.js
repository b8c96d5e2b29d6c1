/* Runs in a page with pictures: what overlaps, is cut, too small or too pale. Sends its findings to
   the page around it (part_render.sh). */
'use strict';
(function () {
  const bad = [], name = document.title || 'page', width = innerWidth;
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  function say(what, e) {
    bad.push(what + (e ? ': "' + e.textContent.slice(0, 40) + '"' : ''));
  }
  function box(e) {
    const r = e.getBoundingClientRect(), h = r.height / 10, turned = e.hasAttribute('transform');
    return {e: e, l: r.left + (turned ? r.width / 10 : 0), r: r.right - (turned ? r.width / 10 : 0),
      t: r.top + (turned ? 0 : h), b: r.bottom - (turned ? 0 : h)};
  }
  function plain(e) {
    const r = e.getBoundingClientRect();
    return {l: r.left, r: r.right, t: r.top, b: r.bottom};
  }
  function inside(a, b, by) {
    return a.l >= b.l - by && a.r <= b.r + by && a.t >= b.t - by && a.b <= b.b + by;
  }
  function linear(colour) {
    return colour.match(/[\d.]+/g).slice(0, 3).map(function (v) {
      v /= 255;
      return v <= .04045 ? v / 12.92 : Math.pow((v + .055) / 1.055, 2.4);
    });
  }
  function light(colour) {
    const c = linear(colour);
    return .2126 * c[0] + .7152 * c[1] + .0722 * c[2];
  }
  function contrast(a, b) {
    const x = light(a), y = light(b);
    return (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
  }
  /* as people see a colour who lack one kind of cone (Machado, Oliveira, Fernandes 2009), in CIELAB */
  const sight = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    [[.152286, 1.052583, -.204868], [.114503, .786281, .099216], [-.003882, -.048116, 1.051998]],
    [[.367322, .860646, -.227968], [.280085, .672501, .047413], [-.011820, .042940, .968881]],
    [[1.255528, -.076749, -.178779], [-.078411, .930809, .147602], [.004733, .691367, .303900]]];
  function seen(colour, by) {
    const c = by.map(function (row) {
      const v = linear(colour);
      return Math.max(0, Math.min(1, row[0] * v[0] + row[1] * v[1] + row[2] * v[2]));
    });
    function f(t) { return t > .008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116; }
    const x = f((.4124 * c[0] + .3576 * c[1] + .1805 * c[2]) / .9505);
    const y = f(.2126 * c[0] + .7152 * c[1] + .0722 * c[2]);
    const z = f((.0193 * c[0] + .1192 * c[1] + .9505 * c[2]) / 1.089);
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  }
  function colours(svg) {
    const list = [];
    for (let i = 0; i < 11; i++) {
      const e = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
      e.setAttribute('class', 'v' + i);
      svg.appendChild(e);
      list.push(fill(e));
      e.remove();
    }
    sight.forEach(function (by, k) {
      list.forEach(function (a, i) {
        list.slice(0, i).forEach(function (b) {
          const x = seen(a, by), y = seen(b, by);
          if (Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]) < 20)
            say('colours ' + a + ' and ' + b + ' look alike (' + k + ')');
        });
      });
    });
  }
  function fill(e) { return getComputedStyle(e).fill; }
  document.querySelectorAll('svg[viewBox^="0 0 500"],svg[viewBox^="0 0 250"]').forEach(function (svg) {
    const all = plain(svg), scale = (all.r - all.l) / svg.viewBox.baseVal.width;
    const paper = fill(svg.querySelector('rect.p'));
    const texts = Array.from(svg.querySelectorAll('text')).map(box);
    if (!texts.length) say('no text');
    colours(svg);
    if (light(paper) < .5 !== dark) say('the paper is not ' + (dark ? 'dark' : 'light'));
    texts.forEach(function (a, i) {
      const cell = a.e.closest('g') && a.e.closest('g').querySelector(':scope > rect');
      const band = Array.from(svg.querySelectorAll('rect.q0,rect.q1')).filter(function (q) {
        return inside(a, plain(q), 2);
      })[0];
      const on = cell ? fill(cell) : band ? fill(band) : paper;
      if (!inside(a, all, .5)) say('outside the picture', a.e);
      if (cell && !inside(a, plain(cell), 2)) say('outside its cell', a.e);
      if (parseFloat(getComputedStyle(a.e).fontSize) * scale < 9.5)
        say('smaller than 9.5 px', a.e);
      if (contrast(fill(a.e), on) < 4.5) say('contrast below 4.5', a.e);
      texts.slice(0, i).forEach(function (b) {
        if (a.l < b.r && b.l < a.r && a.t < b.b && b.t < a.b)
          say('overlaps "' + b.e.textContent.slice(0, 40) + '"', a.e);
      });
    });
    svg.querySelectorAll('rect,path,circle').forEach(function (e) {
      if (!inside(plain(e), all, 1.5)) say('outside: ' + e.tagName);
    });
  });
  if (document.documentElement.scrollWidth > innerWidth) say('wider than the window');
  function page(step) {
    const tip = document.getElementById('tip'), dot = step.querySelector('circle');
    const at = dot.getBoundingClientRect(), x = at.left + at.width / 2, y = at.top + at.height / 2;
    const svg = step.querySelector('svg');
    document.querySelectorAll('.cards div *').forEach(function (e) {
      if (e.scrollWidth > e.clientWidth + 1) say('cut', e);
    });
    svg.dispatchEvent(new PointerEvent('pointermove', {clientX: x, clientY: y, bubbles: true}));
    if (tip.hidden || !tip.firstChild) return say('no tool tip at the peak');
    const r = tip.getBoundingClientRect();
    if (r.left < 0 || r.right > innerWidth || r.top < 0) say('the tool tip is cut');
    const peak = document.querySelector('.cards dd').textContent;
    if (tip.querySelector('b').textContent !== peak)
      say('the tool tip says ' + tip.querySelector('b').textContent + ', the peak is ' + peak);
    step.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home'}));
    if (P.events && !tip.textContent.includes('before the step')) say('no tool tip by key');
    const cell = document.querySelector('#live g');
    if (cell) {
      cell.dispatchEvent(new PointerEvent('pointerdown', {clientX: 5, clientY: 5}));
      if (!/: .*, .*B|: .*, \d/.test(tip.textContent)) say('no tool tip of a cell', tip);
    }
    (cell || step).dispatchEvent(new PointerEvent('pointerleave'));
    if (!tip.hidden) say('the tool tip stays');
    const th = document.querySelectorAll('#layers th')[4];
    if (!th) return; /* a pipeline has none */
    th.click();
    const sorted = Array.from(document.querySelectorAll('#layers tbody tr')).map(function (tr) {
      return +tr.cells[4].dataset.v;
    });
    if (sorted.some(function (v, i) { return i && v > sorted[i - 1]; })) say('not sorted');
  }
  if (document.getElementById('step')) page(document.getElementById('step'));
  parent.postMessage({name: name, width: width, dark: dark, bad: bad}, '*');
}());
