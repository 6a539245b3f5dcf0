// Asks the server again and again, and knows how old the answers are.

const TIMEOUT_MILLISECONDS = 8000;
// So many periods without a decision are no delay any more.
const STALE_PERIODS = 3;

export class Feed {
  // `tell` is called whenever there is news, good or bad.
  constructor(selected, tell) {
    this.selected = selected; // () => [namespace, name] or null
    this.tell = tell;
    this.fleet = null;
    this.service = null;
    this.gone = null; // the server's sentence about a service that is not there
    this.receivedAt = null; // performance.now() of the last answer
    this.failedAt = null; // Date of the first failure since
    this.asking = 0;
  }

  start() {
    document.addEventListener("visibilitychange", () => document.hidden || this.ask());
    this.again();
  }

  async again() {
    if (!document.hidden) await this.ask();
    setTimeout(() => this.again(), 1000 * Math.min(Math.max(this.fleet?.tickSeconds ?? 2, 1), 30));
  }

  async ask() {
    const turn = ++this.asking;
    const wanted = this.selected();
    try {
      const [fleet, service] = await Promise.all([
        answer("api/fleet"),
        wanted && answer(`api/fleet/${wanted.map(encodeURIComponent).join("/")}`),
      ]);
      if (turn !== this.asking) return; // another service was chosen meanwhile
      this.fleet = fleet;
      this.gone = service?.message !== undefined && service.name === undefined ? service.message : null;
      this.service = this.gone === null ? service : null;
      this.receivedAt = performance.now();
      this.failedAt = null;
    } catch {
      if (turn !== this.asking) return;
      this.failedAt ??= new Date();
    }
    this.tell();
  }

  // Seconds since the last answer.
  get waited() {
    return this.receivedAt === null ? 0 : (performance.now() - this.receivedAt) / 1000;
  }

  // Seconds since the loop's last decision; null before the first.
  get decidedAge() {
    const age = this.fleet?.decidedAgeSeconds ?? null;
    return age === null ? null : age + this.waited;
  }

  get stale() {
    if (this.failedAt !== null) return true;
    return this.decidedAge !== null && this.decidedAge > this.longest;
  }

  // Seconds after which what was seen of a service is old.
  get longest() {
    return Math.max(10, STALE_PERIODS * (this.fleet?.tickSeconds ?? 5));
  }
}

async function answer(path) {
  const response = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS), cache: "no-store" });
  if (!response.ok && response.status !== 404) throw new Error(`${path}: ${response.status}`);
  return response.json();
}
