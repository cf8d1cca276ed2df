/** The address that a page will have once the browser shows every change that was asked for. */
export class NewestAddress {
  /** Addresses that were asked for and are not shown yet, the newest last. */
  private pending: string[] = [];
  private shown = "";
  private visit = "";

  /** Return the newest address. */
  get value(): string {
    return this.pending.at(-1) ?? this.shown;
  }

  /** Record that the page was asked to go to an address. */
  ask(address: string): void {
    this.pending.push(address);
  }

  /** Record the address that the page has. `visit` differs each time that the browser has gone somewhere. */
  arrive(visit: string, address: string): void {
    if (visit === this.visit) return;
    [this.visit, this.shown] = [visit, address];
    // The browser may leave some of the addresses out; and it may be at one that was not asked for, after the button Back.
    const place = this.pending.indexOf(address);
    this.pending = place < 0 ? [] : this.pending.slice(place + 1);
  }
}
