// What raised and lowered a score, in words.

/** The lines to show for anything with `raised_by` and `lowered_by`; `usual` where nothing stands out. */
export function reasonLines(scored, usual) {
  const found = [
    ...scored.raised_by.map((reason) => `▲ raised by ${reason}`),
    ...scored.lowered_by.map((reason) => `▼ lowered by ${reason}`),
  ];
  return found.length ? found : [usual];
}
