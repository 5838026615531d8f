-- search.lua - finds help pages by the words that a user types: ?learning rate, ?all-reduce.
--
-- Pages and questions are cut into words. Words are compared by stem, so that "losses" finds "loss" and "normalize"
-- finds "normalise"; parts of words are not compared. A search word scores the greatest weight among the fields of
-- the page that contain the word; the page's score is the sum over the words. Only the pages that contain the
-- greatest number of the search words are listed. A search word that occurs in no page is replaced by the nearest
-- known word: "atention" finds "attention".

local rille = require "rille"

local search = {}

-- Weights of a search word by the field in which it occurs: the page's name, a part of that name, the module, the
-- first sentence, an argument, the text. A page also has its own list of search words: the first weighs 10, the
-- second 9, and so on down to 4.
local NAME <const>, PART <const>, OUTER <const>, FIRST <const>, ARGUMENT <const>, TEXT <const> = 12, 8, 6, 5, 2, 1
local WORD_FIRST <const>, WORD_LAST <const> = 10, 4

local endings = {"ations", "ation", "ings", "ing", "ers", "er", "ors", "or", "ed", "es", "s", "e"}

-- Returns the stem of a word in lower case: "Losses" -> "loss", "normalizing" -> "normalis". A stem has at least 4
-- letters, or 3 if only a plural s is cut off.
local function stem(word)
  word = word:lower():gsub("[-_]", ""):gsub("iz", "is"):gsub("ies$", "y")
  for _, ending in ipairs(endings) do
    local before = word:sub(1, -#ending - 1)
    local double = ending == "s" and before:sub(-1) == "s"
    if #before >= (ending == "s" and 3 or 4) and word:sub(-#ending) == ending and not double then return before end
  end
  return word
end

-- Calls visit(stem, is_part) for each word of a text. Words with hyphens, underscores, digits or capitals are also
-- divided, and visited part by part.
local function each_stem(text, visit)
  for word in text:gmatch("[%w_-]+") do
    visit(stem(word), false)
    local parted = word:gsub("(%l)(%u)", "%1 %2"):gsub("(%a)(%d)", "%1 %2"):gsub("[_-]", " ")
    if parted ~= word then
      for part in parted:gmatch("%w+") do visit(stem(part), true) end
    end
  end
end

-- Adds the words of a text to a dictionary from word to stem.
local function add_words(dictionary, text)
  for word in text:gmatch("[%w_-]+") do dictionary[word:lower()] = stem(word) end
end

-- Returns an index of pages, {name = {stem = weight}}, and a dictionary of the main words of pages and topics.
-- fields(name): the texts of a page, {words =, first =, arguments =, text =}.
function search.index(names, fields, topics)
  local index, dictionary = {}, {}
  for _, topic in ipairs(topics) do add_words(dictionary, topic.words) end
  for _, name in ipairs(names) do
    local weights, f = {}, fields(name)
    local function add(text, weight, of_part)
      each_stem(text or "", function(s, part) weights[s] = math.max(weights[s] or 0, part and of_part or weight) end)
    end
    local outer, last = name:match("^(.-)([^.]*)$")
    add(last, NAME, PART) add(outer, OUTER) add(f.first, FIRST) add(f.arguments, ARGUMENT) add(f.text, TEXT)
    local weight = WORD_FIRST
    for word in (f.words or ""):gmatch("%S+") do
      add(word, weight)
      weight = math.max(weight - 1, WORD_LAST)
    end
    index[name] = weights
    add_words(dictionary, last .. " " .. f.first .. " " .. (f.words or ""))
  end
  return index, dictionary
end

-- Returns a question with each misspelt word replaced. A word counts as misspelt if no page and no topic has its
-- stem, and a main word with the same first letter differs in one or two letters. Short words are not replaced.
function search.corrected(index, dictionary, question)
  return (question:gsub("[%w_-]+", function(word)
    local s, near = stem(word), {}
    if #word < 5 then return nil end
    for _, weights in pairs(index) do
      if weights[s] then return nil end
    end
    for known, known_stem in pairs(dictionary) do
      if known_stem == s then return nil end
      if known:sub(1, 1) == s:sub(1, 1) then near[known] = true end
    end
    local known, changes = rille._nearest(near, word)
    return changes <= 2 and known or nil
  end))
end

-- Returns the stems of the words in a question, without words that most pages have.
local function asked(question)
  local list, skip = {}, {}
  for word in ("a an the of to in on for and how what is are my can does do i"):gmatch("%a+") do skip[word] = true end
  for word in question:gmatch("[%w_-]+") do
    if not skip[word:lower()] then list[#list + 1] = stem(word) end
  end
  return list
end

local phrases = {} -- topic -> its phrases, each a list of stems

-- Returns the phrases of a topic, "gradient clipping, grad norm", as lists of stems.
local function phrases_of(topic)
  if not phrases[topic] then
    phrases[topic] = {}
    for phrase in topic.words:gmatch("[^,]+") do table.insert(phrases[topic], asked(phrase)) end
  end
  return phrases[topic]
end

-- Returns true if a question is about a topic: the question's words include all words of one of the topic's phrases.
-- n: number of words of the question; stems[stem] = true: their stems. If the topic has the field alone, the question
-- must have no other words.
local function is_about(topic, n, stems)
  for _, phrase in ipairs(phrases_of(topic)) do
    local all = not topic.alone or #phrase == n
    for _, s in ipairs(phrase) do all = all and stems[s] end
    if all then return true end
  end
  return false
end

-- Returns the topics (topics.lua) that a question is about, in the order of the list.
function search.topics(topics, question)
  local list, stems, found = asked(question), {}, {}
  for _, s in ipairs(list) do stems[s] = true end
  for _, topic in ipairs(topics) do
    if is_about(topic, #list, stems) then found[#found + 1] = topic end
  end
  return found
end

-- Returns the names of the pages that answer the question, best first, at most `most`.
function search.find(index, question, most)
  local stems, hits, best = asked(question), {}, 1
  for name, weights in pairs(index) do
    local score, found = 0, 0
    for _, s in ipairs(stems) do
      if weights[s] then score, found = score + weights[s], found + 1 end
    end
    if found > 0 then hits[#hits + 1] = {name = name, score = score, found = found} end
    best = math.max(best, found)
  end
  table.sort(hits, function(a, b)
    if a.score ~= b.score then return a.score > b.score end
    if #a.name ~= #b.name then return #a.name < #b.name end
    return a.name < b.name
  end)
  local names = {}
  for _, hit in ipairs(hits) do
    if hit.found == best and #names < most then names[#names + 1] = hit.name end
  end
  return names
end

return search
