// Rendering: whatever was shown before, a view looks as if it were drawn anew, and elements with the same key stay the same elements.
'use strict';

module.exports = async ({ browser, base, assert, openPage }) => {
  const { page, check } = await openPage(browser, base);
  await page.goto(`${base}/console/`);
  await page.getByLabel('Token').waitFor();
  const wrong = await page.evaluate(async () => {
    const main = /** @type {HTMLScriptElement} */ (document.querySelector('script[type=module]'));
    const { h, render } = await import(new URL('view.js', main.src).href);
    let seed = 20_261_117;
    const random = (below) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const keys = (count) => {
      const left = ['a', 'b', 'c', 'd', 'e', 'f'];
      return Array.from({ length: count }, () => left.splice(random(left.length), 1)[0]);
    };
    const properties = () => ({
      ...(random(2) ? { class: `c${random(3)}` } : {}), ...(random(3) ? {} : { title: `t${random(3)}` }),
      ...(random(4) ? {} : { style: { width: `${random(3)}px` } }), ...(random(4) ? {} : { hidden: Boolean(random(2)) }),
    });
    const tree = (depth) => {
      const names = random(2) ? keys(random(6)) : [];
      const keyed = names.map((key) => h(['p', 'div'][random(2)], { key, id: key, ...properties() }, children(depth - 1)));
      return [...children(depth), ...keyed, ...(random(2) ? children(depth) : [])];
    };
    const children = (depth) => (depth <= 0 ? [`text ${random(4)}`] : Array.from({ length: random(4) }, () => {
      const kind = random(5);
      if (kind === 0) return `text ${random(4)}`;
      if (kind === 1) return [null, false, undefined][random(3)];
      return h(['p', 'div', 'span', 'svg'][random(4)], properties(), tree(depth - 1));
    }));
    const root = document.createElement('div');
    document.body.append(root);
    const problems = [];
    for (let round = 0; round < 2_000 && problems.length === 0; round += 1) {
      const before = new Map([...root.children].filter((one) => one.id).map((one) => [`${one.id} ${one.tagName}`, one]));
      const view = tree(3);
      render(root, view);
      const anew = document.createElement('div');
      render(anew, view);
      // Neighbouring texts are two nodes, and look like one; the order in which attributes were set does not matter.
      if (!root.isEqualNode(anew)) problems.push(`round ${round}:\n${root.outerHTML}\nis not\n${anew.outerHTML}`);
      for (const one of root.children) {
        const old = one.id && before.get(`${one.id} ${one.tagName}`);
        if (old && old !== one) problems.push(`round ${round}: ${one.id} was made again`);
      }
    }
    // The focus stays where it is, whatever comes and goes around it.
    const row = (key) => h('button', { key }, key);
    render(root, ['a', 'b', 'c'].map(row));
    root.children[1].focus();
    for (const names of [['a', 'x', 'b', 'c'], ['b', 'c'], ['y', 'b'], ['b', 'a']]) {
      render(root, names.map(row));
      if (document.activeElement?.textContent !== 'b') problems.push(`the focus is lost at ${names}`);
    }
    return problems;
  });
  assert.deepEqual(wrong, []);
  check();
};
