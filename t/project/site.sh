#!/bin/bash
# site.sh path/to/rille - tests the web site: docs/site.sh makes it from the installed pages, without warnings. Prints TAP.
rille=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD
. t/lib/tap.sh

pages=$dir/prefix/share/doc/rille
stage() { cmake --install "$build" --prefix "$dir/prefix" >/dev/null && rm -rf "$dir/prefix/bin" "$dir/prefix/lib"; }
ok "the pages are installed" stage
same_pages() { diff <(cd "$root" && { ls docs/*.md docs/guide/*.md 2>/dev/null | sed 's,^docs/,,'; printf '%s\n' CHANGELOG.md GLOSSARY.md operators.md pages.md; } | sort) \
  <(cd "$pages" && find . -name '*.md' | sed 's,^\./,,' | sort); }
ok "every page of docs/ is installed, and no other page" same_pages
links() { find "$pages" -name '*.md' -exec perl "$root/t/project/links.pl" {} + | grep -v ' links$'; }
is "each link of an installed page leads to an installed file and heading" "$(links)" ""

menu() { "$rille" --no-init -d cpu:1 docs/site.lua "$pages" "$dir/site"; }
ok "every page is in the menu" bash -c 'grep -q "    - GLOSSARY.md" <<<"$1" && ! grep -q error <<<"$1"' menu "$(menu 2>&1)"
echo '# Alone' >"$pages/alone.md"
is "a page that no other page lists is an error" "$(menu 2>&1 >/dev/null | grep -o 'alone.md must be listed.*')" \
  "alone.md must be listed in docs/README.md or docs/guide/index.md"
rm "$pages/alone.md"

mkdir "$dir/empty"
ln -s "$(command -v dirname)" "$dir/empty/dirname"
is "without mkdocs the script names the package" "$(PATH=$dir/empty /bin/sh docs/site.sh "$rille" "$pages" "$dir/site" 2>&1)" \
  "docs: mkdocs is not installed; apt-get install mkdocs installs it"

if ! command -v mkdocs >/dev/null; then
  skip "mkdocs makes the site without warnings" "there is no mkdocs"
  finish
fi
ok "mkdocs makes the site without warnings" docs/site.sh "$rille" "$pages" "$dir/site"
html() { (cd "$pages" && find . -name '*.md' | sed 's/md$/html/; s,README,index,' | while read -r page; do [ -s "$dir/site/$page" ] || echo "$page"; done); }
is "every page is in the site" "$(html)" ""
pictures() { (cd "$pages" && find . -name '*.svg' | while read -r page; do [ -s "$dir/site/$page" ] || echo "$page"; done); }
is "every picture is in the site" "$(pictures)" ""
ok "the search index has pages of help by name" grep -q '"title":"nn.Linear"' "$dir/site/search/search_index.json"
is "no page loads anything from another host" "$(grep -rhoE '<(script|link|img)[^>]* (src|href)="(https?:)?//[^"]*"' "$dir/site" --include='*.html')" ""
loaded() { # loaded: prints the files that pages load and that do not exist
  (cd "$dir/site" && grep -oE '<(script|link|img)[^>]* (src|href)="[^"#?]*"' -r . --include='*.html' | sed 's/:.*"\([^"]*\)"$/ \1/' |
    while read -r page file; do
      case $page in ./404.html) continue ;; esac # links of 404.html start at the server's root
      [ -e "$(dirname "$page")/$file" ] || echo "$page: $file"
    done)
}
is "every file that a page loads is in the site" "$(loaded)" ""
echo '[gone](gone.md)' >>"$pages/README.md"
ok "a link to a missing page stops it" bash -c '! docs/site.sh "$@" >/dev/null 2>&1' site "$rille" "$pages" "$dir/site"
finish
