'use strict';
// The page's script: it asks for fragments of HTML, which the server has
// rendered, and puts them in place without disturbing who is reading or typing.
// Where one is stands after the #, which no server is ever sent. Keys are kept
// for as long as the tab is open, and travel in a header only.
(() => {
  const $ = id => document.getElementById(id);
  const api = location.pathname.replace(/ops\/?$/i, '');
  const calm = 3000, doubt = 6000, slow = 30000, patience = 20000, longest = 60000;
  const view = $('view'), trouble = $('trouble');

  // ---- keys

  const keys = {
    get: name => sessionStorage.getItem('orderflow.key.' + name) || '',
    set: (name, key) => { sessionStorage.setItem('orderflow.key.' + name, key); $('forget').hidden = false; },
  };
  const header = key => key ? {'x-functions-key': key} : {};
  $('forget').hidden = !Object.keys(sessionStorage).some(name => name.startsWith('orderflow.key.'));
  $('forget').onclick = () => { sessionStorage.clear(); location.reload(); };
  $('key').querySelector('form').onsubmit = () => {
    keys.set('operations', $('key-value').value.trim());
    $('key-value').value = '';
  };
  $('key').onclose = again; // without a key, the answer is to ask for it
  function askForKey(refused) {
    if (refused) $('key-says').textContent = 'That key does not open it. What is shown here needs the key of the function operations.';
    if (!$('key').open) $('key').showModal();
    pulse('a key is needed', '');
  }

  // ---- where one is

  // place is what the address asks for: the fragment's path below api, and which
  // of the views it belongs to.
  function place() {
    const [path, query] = (location.hash.slice(1) || '/').split('?', 2);
    // Dots would lead elsewhere, encoded or not.
    const parts = path.split('/').map(decode).filter(part => !['', '.', '..'].includes(part));
    const search = query ? '?' + query : '';
    const page = 'operations/page/';
    if (parts[0] === 'orders') {
      const id = parts[1];
      return {view: 'orders', title: id || 'Orders', path: page + 'orders' + (id ? '/' + encodeURIComponent(id) : search)};
    }
    if (parts[0] === 'messages') {
      if (parts[1] === 'rejected' && parts[2]) return {view: 'messages', title: 'Rejected message', path: page + 'rejected/' + encodeURIComponent(parts[2])};
      return {view: 'messages', title: 'Messages', path: page + 'messages' + search};
    }
    return {view: 'overview', title: 'Overview', path: page + 'overview'};
  }
  function decode(text) {
    try { return decodeURIComponent(text); } catch { return text; }
  }

  // ---- asking, again and again

  let here, shown = '', tag = '', heard = 0, failures = 0, timer = 0, asking;

  function go() {
    here = place();
    tag = '';
    document.title = here.title + ' · Orderflow';
    for (const link of document.querySelectorAll('.top nav a')) {
      if (link.dataset.view === here.view) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
    }
    view.setAttribute('aria-busy', 'true');
    trouble.hidden = true;
    again();
  }

  // again asks at once, whatever is being waited for.
  function again() {
    clearTimeout(timer);
    if (asking) asking.abort();
    ask();
  }

  async function ask() {
    const mine = asking = new AbortController();
    const doubting = setTimeout(() => silence('no answer yet'), doubt), late = setTimeout(() => mine.abort(), patience);
    const key = keys.get('operations');
    let answer, text, next = calm;
    try {
      answer = await fetch(api + here.path, {headers: {...header(key), ...(tag && {'If-None-Match': tag})}, cache: 'no-store', credentials: 'same-origin', signal: mine.signal});
      text = answer.status === 304 ? '' : await answer.text();
    } catch {
      answer = null;
    }
    clearTimeout(doubting);
    clearTimeout(late);
    if (mine !== asking) return; // another was asked meanwhile
    asking = null;
    if (answer && (answer.status === 401 || answer.status === 403)) return askForKey(key !== '');
    if (answer && (answer.ok || answer.status === 304)) {
      failures = 0;
      heard = Date.now();
      if (answer.ok) {
        tag = answer.headers.get('ETag') || '';
        who(answer.headers.get('X-Signed-In'));
        show(text);
      }
      trouble.hidden = true;
      pulse('live', 'live');
      if (view.querySelector('[data-slow]')) next = slow;
    } else if (answer && answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      view.replaceChildren();
      shown = tag = '';
      problem(trouble, answer, text);
      pulse('live', 'live');
      next = 5 * calm;
    } else {
      failures++;
      next = Math.min(longest, calm * 2 ** failures);
      away(answer, text);
    }
    view.setAttribute('aria-busy', 'false');
    timer = setTimeout(() => document.hidden ? (timer = 0) : ask(), next);
  }
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && !asking && !$('key').open) again();
  });

  // away says that nothing is heard. What is shown may still be read, unless
  // something else was asked for since.
  function away(answer, text) {
    silence('not reached');
    if (shown === here.path) return;
    view.replaceChildren();
    shown = '';
    if (answer) problem(trouble, answer, text);
    else say(trouble, 'The app is not reached', 'It is tried again by itself.');
  }

  // silence pales what is shown, and says of when it is.
  function silence(words) {
    pulse(words + (shown === here.path ? ', as of ' + new Date(heard).toTimeString().slice(0, 8) : ''), 'away');
  }

  function pulse(words, kind) {
    view.classList.toggle('old', kind === 'away');
    const p = $('pulse'), text = p.querySelector('.words');
    if (text.textContent !== words) text.textContent = words;
    p.className = kind;
  }

  // problem shows an answer's own words for what is wrong and what to do.
  function problem(box, answer, text) {
    const {detail, remedy} = told(text);
    say(box, detail || 'The answer was ' + answer.status, remedy || '');
  }
  function say(box, what, remedy) {
    box.className = 'verdict bad';
    const title = document.createElement('h2'), more = document.createElement('p');
    title.textContent = what;
    more.textContent = remedy;
    box.replaceChildren(title, ...(remedy ? [more] : []));
    box.hidden = false;
  }

  // ---- putting in place

  function show(html) {
    const fresh = new DOMParser().parseFromString('<div>' + html + '</div>', 'text/html').body.firstChild;
    if (shown !== here.path) {
      shown = here.path;
      const had = view.contains(document.activeElement) && document.activeElement;
      view.replaceChildren(...[...fresh.childNodes].map(n => document.importNode(n, true)));
      for (const input of view.querySelectorAll('[data-at]')) if (input.dataset.at) input.value = local(input.dataset.at);
      if (had) focus(had);
      scrollTo(0, 0);
      toPlace();
    } else {
      morph(view, fresh);
    }
    times();
  }

  // focus goes from a field that is gone to the one that is there for it, and from
  // anything else to what is new.
  function focus(had) {
    const same = had.name && [...view.querySelectorAll('input')].find(input => input.name === had.name && (input.type !== 'checkbox' || input.value === had.value));
    (same || $('main')).focus();
  }

  // toPlace has a drawing that is wider than the screen begin where the order is.
  function toPlace() {
    const drawing = view.querySelector('.drawing'), node = drawing && drawing.querySelector('.here');
    if (!node) return;
    const of = drawing.getBoundingClientRect(), at = node.getBoundingClientRect();
    drawing.scrollLeft += at.left + at.width / 2 - of.left - of.width / 2;
  }

  // morph makes one element's children those of another, and touches nothing that
  // is the same: focus, what is typed, what is open and how far one has scrolled
  // stay as they are.
  function morph(to, from) {
    const wanted = new Set([...from.children].map(child => child.id).filter(Boolean)), keep = new Map();
    for (const child of to.children) if (wanted.has(child.id)) keep.set(child.id, child);
    let at = to.firstChild;
    const drop = () => {
      const next = at.nextSibling;
      at.remove();
      at = next;
    };
    for (const want of [...from.childNodes]) {
      let have = want.id ? keep.get(want.id) : at;
      // What is moved loses the focus; so what is in front of it goes, if it goes anyway.
      if (want.id && have) while (at && at !== have && !keep.has(at.id)) drop();
      if (have && have.id && have.id !== want.id) have = null;
      if (!have || have.nodeName !== want.nodeName) {
        to.insertBefore(document.importNode(want, true), at);
        continue;
      }
      if (have === at) at = at.nextSibling; else to.insertBefore(have, at);
      if (want.nodeType !== Node.ELEMENT_NODE) {
        if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
        continue;
      }
      attributes(have, want);
      if (have.nodeName !== 'TEXTAREA') morph(have, want);
    }
    while (at) drop();
  }
  function attributes(have, want) {
    const own = have.nodeName === 'DETAILS' ? ['open'] : have.nodeName === 'INPUT' ? ['value', 'checked'] : have.nodeName === 'TIME' ? ['title'] : [];
    for (const {name, value} of want.attributes) if (!own.includes(name) && have.getAttribute(name) !== value) have.setAttribute(name, value);
    for (const {name} of [...have.attributes]) if (!own.includes(name) && !want.hasAttribute(name)) have.removeAttribute(name);
  }

  // ---- times

  const units = [[60, 's', 1], [3600, 'min', 60], [172800, 'h', 3600], [Infinity, 'd', 86400]];
  function ago(date) {
    const seconds = Math.round((date - Date.now()) / 1000), size = Math.abs(seconds);
    if (size < 2) return 'now';
    const [, unit, length] = units.find(([below]) => size < below);
    const span = Math.floor(size / length) + ' ' + unit;
    return seconds < 0 ? span + ' ago' : 'in ' + span;
  }
  function times() {
    for (const t of view.querySelectorAll('time')) {
      const at = new Date(t.dateTime), words = ago(at), title = at.toLocaleString() + ' · ' + t.dateTime;
      if (t.textContent !== words) t.textContent = words;
      if (t.title !== title) t.title = title;
    }
  }
  setInterval(() => { if (!document.hidden) times(); }, 1000);
  const local = iso => { const d = new Date(iso); return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19); };

  // ---- going about

  addEventListener('hashchange', go);
  document.querySelector('.skip').onclick = event => { event.preventDefault(); $('main').focus(); };
  $('jump').onsubmit = event => {
    event.preventDefault();
    const id = $('jump-id').value.trim();
    if (id) location.hash = '#/orders/' + encodeURIComponent(id);
    $('jump-id').value = '';
  };
  view.addEventListener('submit', event => {
    event.preventDefault();
    const form = event.target, query = new URLSearchParams(), statuses = [];
    for (const [name, value] of new FormData(form)) {
      if (!value) continue;
      if (name === 'status') statuses.push(value);
      else query.set(name, name.includes('Time') ? new Date(value).toISOString() : value.trim());
    }
    if (statuses.length) query.set('status', statuses.join(','));
    const text = query.toString().replaceAll('%2C', ',');
    location.hash = form.dataset.filter + (text ? '?' + text : '');
  });
  view.addEventListener('change', event => { if (event.target.type === 'checkbox') event.target.form.requestSubmit(); });
  view.addEventListener('click', event => {
    const to = event.target.closest('[data-goto]'), act = event.target.closest('[data-act]');
    if (to && $(to.dataset.goto)) {
      const target = $(to.dataset.goto);
      target.scrollIntoView({block: 'center', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
      target.classList.remove('lit');
      requestAnimationFrame(() => target.classList.add('lit'));
    }
    if (act) open(JSON.parse(act.dataset.act));
  });
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') || event.target.matches('input, textarea')) return;
    event.preventDefault();
    ($('find') || $('jump-id')).focus();
  });

  // ---- acting

  let action, once;
  function who(name) {
    $('act-who-field').hidden = Boolean(name);
  }
  function open(what) {
    action = what;
    once = key();
    $('act-title').textContent = what.title;
    $('act-says').textContent = what.says;
    $('act-about').textContent = what.about;
    $('act-do').classList.toggle('grave', what.grave);
    $('act-opener').textContent = what.opener;
    $('act-do').textContent = what.title;
    $('act-reason').value = $('act-key').value = '';
    $('act-who').value = sessionStorage.getItem('orderflow.who') || '';
    $('act-problem').hidden = $('act-key-field').hidden = true;
    $('act-do').disabled = false;
    $('act').showModal();
    $('act-reason').focus();
  }
  $('act-close').onclick = () => $('act').close();

  // key is made once for a dialog: however often its request is sent, what it
  // asks for is done once.
  function key() {
    return [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, '0')).join('');
  }

  $('act').querySelector('form').onsubmit = async event => {
    event.preventDefault();
    if ($('act-do').disabled) return;
    const asked = action, box = $('act-problem'), name = $('act-who').value.trim();
    if ($('act-key').value) keys.set(asked.opener, $('act-key').value.trim());
    $('act-key').value = '';
    sessionStorage.setItem('orderflow.who', name);
    $('act-do').disabled = true;
    box.hidden = true;
    let answer, text = '';
    try {
      answer = await fetch(api + asked.path, {
        method: 'POST', cache: 'no-store', credentials: 'same-origin', signal: AbortSignal.timeout(4 * patience),
        headers: {
          ...header(keys.get(asked.opener) || keys.get('operations')), 'Content-Type': 'application/json', 'Idempotency-Key': once,
          ...(asked.version && {'If-Match': '"' + asked.version + '"'}), ...(name && {'X-Operator': name}),
        },
        body: JSON.stringify({...asked.fields, reason: $('act-reason').value}),
      });
      text = await answer.text();
    } catch { answer = null; }
    if (asked !== action || !$('act').open) { // it was left meanwhile
      toast(asked.title + ': ' + (!answer ? 'no answer came' : answer.ok ? became(told(text)) : told(text).detail || 'the answer was ' + answer.status));
      return again();
    }
    $('act-do').disabled = false;
    if (!answer) return say(box, 'It cannot be said whether it was done: no answer came', 'Send it again; it will not be done twice.');
    if (answer.ok) {
      $('act').close();
      toast(asked.title + ': ' + became(told(text)));
      return again();
    }
    const problemOfTheApp = (answer.headers.get('Content-Type') || '').includes('problem+json');
    if ((answer.status === 401 || answer.status === 403) && !problemOfTheApp) {
      $('act-key-field').hidden = false;
      $('act-key').focus();
      return say(box, 'The key that opens what is shown does not open this', 'Give the key of the function ' + asked.opener + '.');
    }
    problem(box, answer, text);
    if (answer.status === 409 || answer.status === 412) again(); // what stands behind the dialog is old
  };
  // told is what an answer says in words of the app's own, which not every answer does.
  function told(text) {
    try { return JSON.parse(text) || {}; } catch { return {}; }
  }

  // became is what became of an action, in the words of its answer.
  function became(answer) {
    if (answer.handled === undefined) return answer.outcome || answer.action || 'done';
    return answer.handled + ' handled' + (answer.failed.length ? ', ' + answer.failed.length + ' failed: ' + answer.failed[0].why : '') + (answer.more ? ', more are left' : '') + answer.trouble.map(what => '; trouble with the broker: ' + what).join('');
  }

  let toasting = 0;
  function toast(words) {
    $('toast').textContent = words;
    $('toast').hidden = false;
    clearTimeout(toasting);
    toasting = setTimeout(() => { $('toast').hidden = true; }, 6000);
  }

  go();
})();
