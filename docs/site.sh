#!/bin/sh
# site.sh RILLE PAGES OUT - makes a web site with search from the folder PAGES, which has all pages as installed. Needs mkdocs.
set -eu
if ! command -v mkdocs >/dev/null; then
  echo "docs: mkdocs is not installed; apt-get install mkdocs installs it" >&2
  exit 1
fi
pages=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
config=$(mktemp --suffix .yml)
trap 'rm -f "$config"' EXIT
"$1" --no-init -d cpu:1 "$(dirname "$0")/site.lua" "$pages" "$out" >"$config"
mkdocs build --quiet --strict --clean --config-file "$config"

# Debian's package lacks scripts that its theme loads. Its own version of jQuery serves for the missing one; the pages need no other.
for script in $(find "$out" -name '*.html' -exec grep -ohE 'src="[^"]*js/[^"/]+\.js"' {} + | sed 's,.*/,,; s/"$//' | sort -u); do
  [ -e "$out/js/$script" ] && continue
  case $script in
  jquery*) cp "$out"/js/jquery*.js "$out/js/$script" ;;
  *) find "$out" -name '*.html' -exec sed -i "s,<script src=\"[^\"]*js/$script\"[^>]*></script>,," {} + ;;
  esac
done
