// A wide table scrolls by itself, and the keyboard has to reach it.
document$.subscribe(() => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) wide.tabIndex = 0
})
