'use strict';
// What an operator does with the page, in a real browser. The first two
// arguments are the page's address and the browser; with SHOTS, a folder,
// pictures are left there. What is not as it should be ends it with 1.
const assert = require('node:assert/strict');
const path = require('node:path');
const {chromium} = require('playwright-core');

const [address, executablePath] = process.argv.slice(2);
const shots = process.env.SHOTS;
const wrong = [];

// open is a page in a tab of its own; with a key it need not be asked for one.
async function open(browser, hash, {key = 'look', width = 1240, dark = false} = {}) {
  const tab = await browser.newContext({viewport: {width, height: width < 500 ? 812 : 900}, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce'});
  if (key) await tab.addInitScript(k => { if (location.protocol !== 'about:') sessionStorage.setItem('orderflow.key.operations', k); }, key);
  const page = await tab.newPage();
  page.on('pageerror', error => wrong.push('an error: ' + error.message));
  page.on('console', line => {
    // The browser itself reports each answer that is an error, and each that fails.
    if (line.type() !== 'log' && !/^Failed to load resource: (the server responded with a status of (400|401|404|409|412|429)|net::ERR_FAILED)/.test(line.text())) wrong.push('the console: ' + line.text());
  });
  await page.goto(address + hash);
  return page;
}

const seen = (page, selector) => page.waitForSelector(selector, {timeout: 30000});
const says = async (page, words, within = '#view') => {
  await page.waitForFunction(([within, words]) => document.querySelector(within).textContent.includes(words), [within, words], {timeout: 30000});
};
const shown = page => seen(page, '#view > *');

async function picture(page, name, whole = false) {
  if (shots) await page.screenshot({path: path.join(shots, name + '.png'), fullPage: whole});
}

const steps = {
  async 'asks for the key, which never is in an address'(browser) {
    const page = await open(browser, '#/', {key: ''});
    await seen(page, '#key[open]');
    await page.fill('#key-value', 'guess');
    await page.keyboard.press('Enter');
    await says(page, 'does not open it', '#key');
    await page.fill('#key-value', 'look');
    await page.keyboard.press('Enter');
    await seen(page, '.tile');
    assert.ok(!page.url().includes('look'));
    assert.equal(await page.evaluate(() => Object.keys(localStorage).length + document.cookie.length), 0, 'it is kept in the tab alone');
    await page.click('#forget');
    await seen(page, '#key[open]');
  },

  async 'sees how all orders stand, and what needs a person'(browser) {
    const page = await open(browser, '#/');
    await seen(page, '.tile.bad');
    assert.equal(await page.locator('.node').count(), 8);
    for (const order of ['order-blocked', 'order-lost', 'order-refund', 'order-dead']) await says(page, order);
    await says(page, 'orders are blocked by messages that could not be handled', '.verdict');
    await picture(page, 'ops');
    await picture(page, 'overview', true);
    await page.click('.node[data-status="Completed"]');
    await says(page, 'order-1');
    assert.ok(page.url().endsWith('#/orders?status=Completed'));
  },

  async 'is not disturbed when what is shown changes'(browser) {
    const page = await open(browser, '#/');
    await seen(page, '#o-order-lost');
    assert.match(await page.textContent('#o-order-lost time'), /^(now|\d+ (s|min) ago)$/);
    await page.click('#words > summary');
    await page.focus('#o-order-lost a');
    const scrolled = await page.evaluate(() => { document.activeElement.mark = 'the same'; return scrollY; });
    await page.route('**/page/overview', async route => {
      const answer = await route.fetch({headers: {...route.request().headers(), 'if-none-match': ''}});
      const html = (await answer.text()).replace(/(<span class="value">)\d+(<\/span><span class="label">in flight)/, '$1777$2').replace(/<tr id="o-order-refund"[^]*?<\/tr>/, '<tr id="o-new"><td>new</td></tr>');
      await route.fulfill({response: answer, body: html});
    });
    await says(page, '777');
    assert.deepEqual(await page.evaluate(() => [document.activeElement.mark, document.activeElement.textContent, document.getElementById('words').open]), ['the same', 'order-lost', true]);
    const moved = await page.evaluate(() => scrollY) - scrolled;
    assert.ok(scrolled > 200 && Math.abs(moved) < 200, 'it is not scrolled away, but by as much as is there more or less: ' + moved);
    assert.equal(await page.locator('#o-new').count(), 1);
    assert.equal(await page.locator('#o-order-refund').count(), 0, 'what is gone is gone');
    assert.equal(await page.locator('#o-order-lost').count(), 1);
  },

  async 'filters orders by what is in the address, and is not disturbed while typing'(browser) {
    const page = await open(browser, '#/orders?status=AwaitingPayment,NeedsAttention');
    await says(page, 'order-lost');
    assert.ok(await page.isChecked('input[value="NeedsAttention"]'));
    assert.equal(await page.locator('#view .chip', {hasText: 'Completed'}).count(), 0);
    await page.keyboard.press('/');
    await page.keyboard.type('order-p');
    await page.click('#dates > summary');
    await polls(page, 2);
    assert.equal(await page.inputValue('#find'), 'order-p');
    assert.ok(await page.evaluate(() => document.getElementById('dates').open), 'what is open stays open');
    await page.focus('#find');
    await page.keyboard.press('Enter');
    await page.waitForURL(/idPrefix=order-p/);
    await page.waitForFunction(() => document.querySelectorAll('#view tbody tr').length === 1);
    await page.goBack();
    await says(page, 'order-lost');
    await page.fill('#find', 'order p');
    await page.press('#find', 'Enter');
    assert.ok(await page.evaluate(() => document.getElementById('find').validity.patternMismatch), 'no ID has a space, and what was typed is still there');
    await page.fill('#find', '');
    await picture(page, 'orders', true);
    await page.click('.pill:has-text("Cancelled")');
    await page.waitForURL(/#\/orders\?status=AwaitingPayment,NeedsAttention,Cancelled$/);
    await says(page, 'order-empty');
  },

  async 'cancels an order with a reason, with the key for acting'(browser) {
    const page = await open(browser, '#/orders/order-silent');
    await seen(page, '.act');
    await says(page, "the payment service's answer to CapturePayment");
    assert.equal(await page.getAttribute('.node.here', 'data-status'), 'AwaitingPayment');
    await page.click('.act:text("Cancel the order")');
    await page.keyboard.type("Zoë's friend <ann> asked by phone");
    await page.fill('#act-who', 'ann');
    await polls(page, 2);
    assert.equal(await page.inputValue('#act-reason'), "Zoë's friend <ann> asked by phone", 'it is not lost to what is asked meanwhile');
    await picture(page, 'dialog');
    await page.click('#act-do');
    await says(page, 'Give the key of the function order-actions', '#act-problem');
    await page.fill('#act-key', 'act');
    await page.click('#act-do');
    await page.waitForSelector('#act[open]', {state: 'hidden'});
    await says(page, 'Applied', '#toast');
    await seen(page, '.node.here[data-status="Cancelled"]');
    await says(page, 'the customer cancelled');
    await says(page, 'by ann');
    await picture(page, 'cancelled', true);
  },

  async 'sends a dead command again and follows its order to the end'(browser) {
    const page = await open(browser, '#/messages?kind=dead');
    await says(page, 'order-dead:capture-payment:1');
    await picture(page, 'dead');
    await page.click('#view tbody a');
    await says(page, 'the broker refused 1 of its commands for good');
    await page.evaluate(() => fetch('/mend'));
    await page.click('.act:text("Send capture-payment:1 again")');
    await page.fill('#act-reason', 'the broker takes it now');
    await page.click('#act-do');
    await seen(page, '#act-key-field:not([hidden])');
    await page.fill('#act-key', 'act');
    await page.keyboard.press('Enter');
    await seen(page, '.node.here[data-status="Completed"]');
    assert.equal(await page.locator('#view .verdict').count(), 0, 'it is not stuck any more');
  },

  async 'brings back what the broker gave up'(browser) {
    const page = await open(browser, '#/messages?kind=dead-letters');
    await says(page, 'bank:gone');
    await picture(page, 'dead-letters');
    await page.evaluate(() => sessionStorage.setItem('orderflow.key.operation-actions', 'act'));
    await page.click('.act:text("Bring back 1 of payment-result")');
    await page.fill('#act-reason', 'the bank says it was paid');
    const trouble = {action: 'redrive', handled: 0, outcomes: {}, failed: [], more: true, trouble: ['no such subscription']};
    await page.route('**/redrive', route => route.fulfill({status: 200, contentType: 'application/json', body: JSON.stringify(trouble)}), {times: 1});
    await page.click('#act-do');
    await says(page, '0 handled, more are left; trouble with the broker: no such subscription', '#toast');
    assert.match(await page.textContent('.tabs a[aria-current]'), /Dead letters 1/);
    await page.click('.act:text("Bring back this order\'s")');
    await says(page, 'All of order order-gone', '#act');
    await page.fill('#act-reason', 'the bank says it was paid');
    await page.click('#act-do');
    await says(page, '1 handled', '#toast');
    await says(page, 'There are none.');
    await page.fill('#jump-id', 'order-gone');
    await page.press('#jump-id', 'Enter');
    await says(page, 'bank:gone');
  },

  async 'is told in the app\'s own words what is not possible'(browser) {
    const page = await open(browser, '#/orders/order-patient');
    await page.evaluate(() => sessionStorage.setItem('orderflow.key.order-actions', 'act'));
    await page.click('.act:text("Let payment-timeout:1 pass now")');
    await page.fill('#act-reason', 'why');
    const asked = [];
    await page.route('**/fire-deadline', route => asked.push(route.request()) === 1 ? route.abort() : route.fulfill({status: 412, contentType: 'application/problem+json', body: JSON.stringify({detail: 'the order was seen at <b>2</b>', remedy: 'possible now: cancel'})}));
    await page.click('#act-do');
    await says(page, 'It cannot be said whether it was done', '#act-problem');
    await page.click('#act-do');
    await says(page, 'the order was seen at <b>2</b>', '#act-problem');
    const [first, again] = asked.map(request => request.headers());
    assert.match(first['idempotency-key'], /^[0-9a-f]{32}$/);
    assert.equal(first['idempotency-key'], again['idempotency-key'], 'sent again, it is the same request');
    assert.equal(first['if-match'], '"2"');
    assert.deepEqual(JSON.parse(asked[0].postData()), {deadlineId: 'order-patient:payment-timeout:1', reason: 'why'});
    await says(page, 'possible now: cancel', '#act-problem');
    await page.keyboard.press('Escape');
    await page.goto(address + '#/orders/order-none');
    await says(page, 'nothing is known of order order-none', '#trouble');
    await page.goto(address + '#/orders?status=Newer');
    await says(page, 'the parameter status cannot be', '#trouble');
  },

  async 'reads what hostile messages say, and none of it runs'(browser) {
    const page = await open(browser, '#/messages?kind=rejected');
    await seen(page, '#view tbody a');
    const views = ['#/orders/order-hostile', '#/orders/order-blocked', '#/orders/order-early', '#/messages?kind=rejected', '#/messages?kind=blocked', '#/messages?kind=early', '#/messages?kind=dead-letters', '#/messages?kind=waiting', '#/messages?kind=deadlines', '#/messages?kind=scheduled'];
    for (const link of await page.locator('#view tbody a.type').evaluateAll(all => all.map(a => a.getAttribute('href')))) views.push(link);
    assert.equal(views.length, 13, 'three are rejected');
    let hostile = 0;
    for (const view of views) {
      await page.goto('about:blank');
      await page.goto(address + view);
      await shown(page);
      await page.waitForTimeout(50);
      assert.notEqual(await page.title(), 'taken', view);
      assert.equal(await page.locator('#view img, #view script, #view [onerror], #view [style], #view a[href^="javascript"]').count(), 0, view);
      if ((await page.textContent('#view')).includes('<img src=x')) hostile++;
      await picture(page, 'hostile-' + views.indexOf(view), true);
    }
    assert.ok(hostile >= 5, 'it is shown as it was said: ' + hostile);
  },

  async 'says when nothing is heard, and goes on by itself'(browser) {
    const page = await open(browser, '#/');
    await seen(page, '.tile');
    const opacity = value => page.waitForFunction(value => getComputedStyle(document.getElementById('view')).opacity === value, value);
    await page.route('**/page/overview', route => route.abort());
    await says(page, 'not reached', '#pulse');
    assert.match(await page.textContent('#pulse'), /not reached, as of \d\d:\d\d:\d\d$/);
    assert.ok(await page.isVisible('.tile'), 'what was read stays');
    await opacity('0.55');
    await picture(page, 'away');
    await page.unroute('**/page/overview');
    await says(page, 'live', '#pulse');
    await opacity('1');
    let answer;
    await page.route('**/page/overview', route => { answer = () => route.continue(); });
    await says(page, 'no answer yet, as of', '#pulse');
    await opacity('0.55');
    await answer();
    await page.unroute('**/page/overview');
    await says(page, 'live', '#pulse');
    await opacity('1');
  },

  async 'is not shown one order for another when nothing is heard'(browser) {
    const page = await open(browser, '#/orders/order-refund');
    await says(page, 'order-refund');
    await page.route('**/page/orders/order-2', route => route.abort());
    await page.fill('#jump-id', 'order-2');
    await page.press('#jump-id', 'Enter');
    await says(page, 'The app is not reached', '#trouble');
    assert.equal(await page.textContent('#view'), '', 'what stood there is not what was asked for');
    await page.unroute('**/page/orders/order-2');
    await says(page, 'order-2');
    assert.ok(!await page.isVisible('#trouble'));
    await page.route('**/page/orders/order-3', route => page.waitForFunction(() => getComputedStyle(document.getElementById('view')).opacity === '0.5').finally(() => route.continue()));
    await page.fill('#jump-id', 'order-3');
    await page.press('#jump-id', 'Enter');
    await says(page, 'order-3');
    await page.waitForFunction(() => getComputedStyle(document.getElementById('view')).opacity === '1');
  },

  async 'is asked for the key until one is given, and for one that can be sent'(browser) {
    const page = await open(browser, '#/', {key: ''});
    await seen(page, '#key[open]');
    // The second time, the browser closes a dialog whatever the page says.
    for (let n = 0; n < 3; n++) await page.keyboard.press('Escape');
    await page.waitForTimeout(100);
    await seen(page, '#key[open]');
    await page.fill('#key-value', 'look\u200b');
    await page.keyboard.press('Enter');
    await page.waitForTimeout(100);
    assert.ok(await page.evaluate(() => document.getElementById('key').open && document.getElementById('key-value').validity.patternMismatch), 'with what cannot be seen in it, it is not taken');
    await page.fill('#key-value', ' look ');
    await page.keyboard.press('Enter');
    await seen(page, '.tile');
  },

  async 'leaves a dialog, and nothing that was typed into it is left'(browser) {
    const page = await open(browser, '#/orders/order-patient');
    const act = async () => {
      await page.click('.act:text("Let payment-timeout:1 pass now")');
      await page.fill('#act-reason', 'why');
      await page.click('#act-do');
    };
    await act();
    await page.fill('#act-key', 'of another function');
    await page.keyboard.press('Escape');
    await page.click('.act:text("Cancel the order")');
    assert.equal(await page.inputValue('#act-key'), '');
    await page.keyboard.press('Escape');
    let answer;
    await page.route('**/fire-deadline', route => new Promise(done => { answer = fulfilled => done(route.fulfill(fulfilled)); }));
    await act();
    await page.keyboard.press('Escape');
    while (!answer) await page.waitForTimeout(10);
    answer({status: 409, contentType: 'application/problem+json', body: JSON.stringify({detail: 'it has passed already'})});
    await says(page, 'Let payment-timeout:1 pass now: it has passed already', '#toast');
  },

  async 'goes on looking whatever is answered'(browser) {
    const page = await open(browser, '#/orders/order-refund');
    await says(page, 'order-refund');
    const answers = [{status: 429, body: 'null'}];
    await page.route('**/page/orders/**', route => answers.length ? route.fulfill(answers.shift()) : route.fallback());
    await says(page, 'not reached', '#pulse');
    assert.ok(await page.isVisible('.act'), 'that there is no room for it now says nothing about the order');
    await says(page, 'live', '#pulse');
    assert.equal(answers.length, 0);
    await page.route('**/page/orders?**', route => route.fulfill({status: 400, contentType: 'application/problem+json', body: 'null'}));
    await page.goto(address + '#/orders?top=7');
    await says(page, 'The answer was 400', '#trouble');
    await page.goto(address + '#/orders/..');
    await page.click('#dates > summary');
    await page.evaluate(() => { document.querySelector('[name=createdTimeFrom]').value = '20260-01-01T00:00:00'; });
    await page.click('button:text("Show")');
    assert.ok(await page.evaluate(() => document.querySelector('[name=createdTimeFrom]').validity.rangeOverflow), 'a year of five digits is told from one');
  },

  async 'asks again without fetching what it has'(browser) {
    const page = await open(browser, '#/orders/order-2');
    await shown(page);
    const status = await new Promise(done => page.on('response', answer => { if (answer.url().includes('/page/')) done(answer.status()); }));
    assert.equal(status, 304);
  },

  async 'can be used on a phone, in the dark and with the keyboard'(browser) {
    for (const [name, hash] of [['overview', '#/'], ['orders', '#/orders'], ['order', '#/orders/order-refund'], ['blocked', '#/orders/order-blocked'], ['messages', '#/messages?kind=rejected']]) {
      for (const dark of [false, true]) {
        const page = await open(browser, hash, {width: 375, dark});
        await shown(page);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + ' is no wider than a phone');
        assert.ok(await page.evaluate(() => [...document.querySelectorAll('.scroll')].every(list => list.scrollWidth <= list.clientWidth)), name + ' has nothing cut off');
        const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b) / 3);
        assert.ok(dark ? light < 60 : light > 200, name + ' is dark in the dark');
        await picture(page, 'phone-' + name + (dark ? '-dark' : ''), true);
        await page.context().close();
      }
    }
    const page = await open(browser, '#/', {dark: true});
    await seen(page, '.tile');
    await picture(page, 'overview-dark', true);
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.goto(address + '#/orders/order-refund');
    await seen(page, '.act');
    await picture(page, 'order-dark', true);
    await page.focus('.act');
    await page.keyboard.press('Enter');
    await seen(page, '#act[open]');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'act-reason');
    await page.keyboard.press('Escape');
    await page.waitForSelector('#act[open]', {state: 'hidden'});
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.value);
    await page.goto(address + '#/orders');
    await seen(page, '.pill');
    await page.focus('.pill input[value="Completed"]');
    await page.keyboard.press('Space');
    await seen(page, '#view a:text("Show all")');
    assert.equal(await focused(), 'Completed', 'one goes on from where one was');
    await page.focus('#view tbody a');
    await page.keyboard.press('Enter');
    await seen(page, '.timeline');
    assert.equal(await focused(), 'main', 'what is read next is what is new');
  },
};

// polls waits until the page has asked so many times.
async function polls(page, times) {
  for (let n = 0; n < times; n++) await page.waitForResponse(answer => answer.url().includes('/page/'));
  await page.waitForTimeout(50);
}

(async () => {
  const browser = await chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run']});
  for (const [name, step] of Object.entries(steps)) {
    const begun = Date.now();
    try {
      await step(browser);
    } catch (error) {
      wrong.push(`an operator ${name}: ${error.stack}`);
    }
    console.log(`an operator ${name}: ${Date.now() - begun} ms`);
    for (const tab of browser.contexts()) await tab.close();
  }
  await browser.close();
  for (const fault of wrong) console.error(fault);
  process.exit(wrong.length > 0 ? 1 : 0);
})();
