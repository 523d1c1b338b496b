// node before 22 has no fs.globSync, which the suite imports for its summary of baselines only
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.endsWith("/conformance/dist/index.js")) return loaded;
  const source = loaded.source.toString().replace(/\bglobSync as (\w+),/, "");
  const name = /\bglobSync as (\w+),/.exec(loaded.source.toString());
  return { ...loaded, source: source + (name ? `\nfunction ${name[1]}(){return []}\n` : "") };
}
