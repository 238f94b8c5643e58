// The API owner: changes the policy with its problems shown, publishes it, takes it back. What is done takes effect on the decision API.
'use strict';

const MARKUP = '<img src=x onerror=alert(1)>';

module.exports = async ({ browser, base, settings, assert, decide, eventually, ask, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  const limitOf = async (request = { user: 'u' }) => (await decide(request, 'peek')).body.limit;
  const editor = page.getByRole('textbox', { name: 'The policy' });
  const button = (name) => page.getByRole('button', { name, exact: true });
  const dialog = page.getByRole('dialog');
  const publish = async (reason) => {
    await button('Review and publish').click();
    if (reason) await dialog.getByLabel('Reason').fill(reason);
    await dialog.getByRole('button', { name: 'Publish' }).click();
    await dialog.waitFor({ state: 'detached' });
  };

  await signIn(page, base, settings.tokens.editor, 'policy');
  await page.getByRole('heading', { name: 'Version 2' }).waitFor();
  assert.equal(await editor.inputValue(), settings.policy, 'it is the text as it was written');
  await page.getByText('Valid', { exact: true }).waitFor();
  await look(page, 'policy');

  // A mistake is shown at its line while typing, and cannot be published.
  await editor.fill(settings.policy.replace('capacity: 10', 'capacities: 10'));
  await page.getByText('unknown field `capacities`').waitFor();
  assert.ok(await button('Review and publish').isDisabled());
  await page.getByRole('button', { name: /^Line 5.*capacities/ }).click();
  const line = await editor.evaluate((area) => area.value.slice(0, area.selectionStart).split('\n').length);
  assert.equal(line, 5, 'the cursor goes to the line of the problem');
  await look(page, 'policy-problem');

  // Names and words are offered while typing.
  await editor.fill(settings.policy);
  await editor.press('Control+End');
  await editor.pressSequentially('defa');
  await page.getByRole('option', { name: /^defaults/ }).waitFor();
  await editor.press('Tab');
  await editor.press('Enter');
  await editor.pressSequentially('mo');
  await page.getByRole('option', { name: /^mode/ }).waitFor();
  await look(page, 'policy-names');
  await editor.press('Enter');
  await editor.pressSequentially('sh');
  await page.getByRole('option', { name: /^shadow/ }).waitFor();
  await editor.press('Enter');
  assert.ok((await editor.inputValue()).endsWith('defaults: \n  mode: shadow'), await editor.inputValue());

  // The draft is still there after a reload, and after the end of the session.
  const draft = settings.policy.replace('capacity: 10', 'capacity: 25');
  await editor.fill(draft);
  await page.getByText('Valid', { exact: true }).waitFor();
  await page.waitForTimeout(600);
  await page.reload();
  await page.getByRole('heading', { name: 'Draft' }).waitFor();
  assert.equal(await editor.inputValue(), draft);
  await page.context().clearCookies();
  await editor.press('Control+End');
  await editor.pressSequentially('# typed after the end\n');
  await page.getByRole('dialog').getByLabel('Token').fill(settings.tokens.editor);
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click();
  await eventually(async () => assert.equal(await page.getByRole('dialog').count(), 0));
  assert.equal(await editor.inputValue(), `${draft}# typed after the end\n`);

  // What differs is shown, then it is published, and undone.
  await button('Review and publish').click();
  await dialog.getByText('+    burst: { capacity: 25 }').waitFor();
  await look(page, 'policy-publish');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await publish(MARKUP);
  await eventually(async () => assert.equal(await limitOf(), 25));
  await page.getByRole('heading', { name: 'Version 3' }).waitFor();
  await button('Undo').click();
  await eventually(async () => assert.equal(await limitOf(), 10));
  await page.getByRole('heading', { name: 'Version 4' }).waitFor();

  await byForms({ page, button, dialog, eventually, assert, decide, limitOf, look });
  await versions({ page, base, dialog, eventually, assert, limitOf, look });

  // Somebody else publishes meanwhile.
  await page.goto(`${base}/console/policy`);
  await editor.fill((await editor.inputValue()).replace('capacity: 10', 'capacity: 40'));
  await ask('publish', { text: settings.policy.replace('capacity: 10', 'capacity: 30') });
  await button('Review and publish').click();
  await dialog.getByText('was published after you began').waitFor();
  await dialog.getByText('-    burst: { capacity: 30 }').waitFor();
  await dialog.getByRole('button', { name: 'Publish' }).click();
  await eventually(async () => assert.equal(await limitOf(), 40));

  // A viewer reads, without secrets.
  const viewer = await openPage(browser, base);
  await signIn(viewer.page, base, settings.tokens.viewer, 'policy');
  await viewer.page.getByText('Editors may change it').waitFor();
  assert.ok(!(await viewer.page.getByRole('textbox', { name: 'The policy' }).isEditable()));
  assert.equal(await viewer.page.getByRole('button', { name: 'Add a limit' }).count(), 0);
  await viewer.page.goto(`${base}/console/policy?view=versions`);
  assert.ok(await viewer.page.getByRole('button', { name: 'Restore version 2' }).isDisabled());
  viewer.check();
  check();
};

async function byForms({ page, button, dialog, eventually, assert, decide, limitOf, look }) {
  const send = async () => {
    await dialog.getByRole('button', { name: 'Publish' }).click();
    await dialog.waitFor({ state: 'detached' });
  };
  // The name is typed before the limits are here.
  let isTyped = () => {};
  const typed = new Promise((resolve) => { isTyped = resolve; });
  await page.route('**/api/v1/limits*', async (route) => { await typed; await route.continue(); });
  await button('Change a limit').click();
  await dialog.getByLabel('Limit').fill('per-user');
  isTyped();
  await dialog.getByText('Now 10.').waitFor();
  await dialog.getByLabel('Burst').fill('x');
  await dialog.getByRole('button', { name: 'Publish' }).click();
  await dialog.getByText('whole numbers').waitFor();
  await dialog.getByLabel('Burst').fill('12');
  await look(page, 'policy-change');
  await send();
  await eventually(async () => assert.equal(await limitOf(), 12));
  await page.getByRole('heading', { name: 'Version 5' }).waitFor();

  await button('Add a limit').click();
  await dialog.getByLabel('Name').fill('per-plan');
  await dialog.getByLabel('Path').fill('/new/**');
  await dialog.getByLabel('Rate').fill('2');
  await dialog.getByLabel('Per', { exact: true }).selectOption('minute');
  await look(page, 'policy-add');
  await send();
  await eventually(async () => {
    const { limits } = (await decide({ user: 'u', path: '/new/x' }, 'peek')).body;
    assert.deepEqual(limits.map(({ name, limit }) => [name, limit]), [['per-user', 12], ['per-plan', 2]]);
  });
  await page.getByRole('heading', { name: 'Version 6' }).waitFor();

  await button('Block').click();
  await dialog.getByLabel('Is').fill('mallory');
  await dialog.getByRole('button', { name: 'Publish' }).click();
  await dialog.getByText('Say why').waitFor();
  await dialog.getByLabel('Reason').fill(MARKUP);
  await send();
  await eventually(async () => assert.equal((await decide({ user: 'mallory' }, 'peek')).body.reason, 'blocked'));
  await page.getByRole('heading', { name: 'Version 7' }).waitFor();
  assert.ok((await page.getByRole('textbox', { name: 'The policy' }).inputValue()).includes(MARKUP), 'markup is text');
  await button('Allow').click();
  await dialog.getByLabel('What').selectOption('ip');
  await dialog.getByLabel('Is').fill('10.0.0.0/8');
  await dialog.getByLabel('Reason').fill('inside');
  await send();
  await eventually(async () => assert.equal((await decide({ user: 'u', ip: '10.1.2.3' }, 'peek')).body.reason, 'allowlisted'));
  await page.getByRole('heading', { name: 'Version 8' }).waitFor();
}

async function versions({ page, base, dialog, eventually, assert, limitOf, look }) {
  await page.getByRole('link', { name: 'Versions' }).click();
  const row = page.getByRole('row', { name: /^3 / });
  await row.getByText(MARKUP).waitFor();
  await row.getByRole('link', { name: 'What changed' }).click();
  await page.getByText('burst.capacity: 10 → 25').waitFor();
  assert.ok(page.url().endsWith('/console/policy?view=versions&from=2&to=3'), page.url());
  await look(page, 'policy-versions');
  await page.goto(`${base}/console/policy?view=versions`);
  await page.getByLabel('From').selectOption('4');
  await page.getByLabel('To', { exact: true }).selectOption('8');
  await page.locator('.changes').getByText('per-plan').waitFor();
  await page.getByRole('button', { name: 'Restore version 2' }).click();
  await dialog.locator('.removed', { hasText: 'mallory' }).waitFor();
  await look(page, 'policy-restore');
  await dialog.getByRole('button', { name: 'Restore' }).click();
  await eventually(async () => assert.equal(await limitOf(), 10));
  await page.getByRole('row', { name: /^9 .*in force/ }).waitFor();
}
