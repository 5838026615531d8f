-- site.lua - prints mkdocs.yml for the site: rille docs/site.lua PAGES OUT, where PAGES is a folder with all pages, as installed.
--
-- README.md and guide/index.md list the pages, and the menu keeps this order and the headings. An unlisted page is an error. A link
-- to a missing page stops mkdocs (build --strict).

local root, out = arg[1], arg[2]
local REFERENCE <const> = {"pages.md", "operators.md", "GLOSSARY.md", "CHANGELOG.md"} -- pages at the end of the menu

-- Returns the pages that a page links to, in groups by heading: {{title =, "a.md", "b.md"}, ...}.
local function links(page, folder, seen)
  local groups = {{}}
  for line in io.lines(root .. "/" .. page) do
    local title = line:match("^##+ (.*)")
    if title then groups[#groups + 1] = {title = title} end
    for path in line:gmatch("%]%(([%w_/.-]+%.md)%)") do
      path = folder .. path
      if not seen[path] and not path:find("..", 1, true) then table.insert(groups[#groups], path) end
      seen[path] = true
    end
  end
  return groups
end

local function print_group(indent, title, paths)
  if #paths == 0 then return end
  if title then print(("%s- %q:"):format(indent, title)) end
  for _, path in ipairs(paths) do print(("%s- %s"):format(title and indent .. "    " or indent, path)) end
end

local seen = {["README.md"] = true}
for _, page in ipairs(REFERENCE) do seen[page] = true end
local top = {}
for _, group in ipairs(links("README.md", "", seen)) do table.move(group, 1, #group, #top + 1, top) end

print(("site_name: Rille\ndocs_dir: %q\nsite_dir: %q\nuse_directory_urls: false"):format(root, out))
print("theme: {name: readthedocs, highlightjs: false}\nplugins: [search]\nnav:\n  - README.md")
local pages = {}
for _, page in ipairs(top) do
  if page == "guide/index.md" then
    print('  - "Guide":\n      - guide/index.md')
    for _, group in ipairs(links(page, "guide/", seen)) do print_group("      ", group.title, group) end
  else
    pages[#pages + 1] = page
  end
end
table.move(REFERENCE, 1, #REFERENCE, #pages + 1, pages)
print_group("  ", "Reference", pages)

local list = io.popen(("cd '%s' && find . -name '*.md' | sort"):format(root))
for path in list:lines() do
  path = path:sub(3)
  if not seen[path] then error(path .. " must be listed in docs/README.md or docs/guide/index.md", 0) end
end
list:close()
