#!/usr/bin/env python3
"""Makes chat.lua: conversations, and the digests of the texts that transformers makes of them with chat-templates.lua.

  python3.11 -m venv v && v/bin/pip install transformers jinja2 && v/bin/python t/golden/text/chat.py

The templates are written for this test: each uses the constructs of the templates of a family of models. A row of the file is a
template, a conversation and options; its value is a digest of the text, or the message of the error that the template raises.
t/files/text-chat.lua renders the same rows and compares.
"""
import json, os, re
import jinja2, transformers
from transformers.utils.chat_template_utils import render_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
M = (1 << 64) - 1
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

with open(os.path.join(HERE, "chat-templates.lua")) as f:
    TEMPLATES = {name: text for name, _, text in re.findall(r'^\["(.*?)"\] = \[(=+)\[\n(.*?)\]\2\],$', f.read(), re.M | re.S)}

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.", "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "description": "The city's \"name\", é"}, "unit": {"type": "string", "enum": ["c", "f"], "default": "c", "description": "Unit"},
    "days": {"type": ["integer", "null"], "description": "Days"}, "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"}}, "required": ["city"]}}}
NOTHING = {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {"type": "object", "properties": {}, "required": []}}}
CONVERSATIONS = {
    "hello": [{"role": "user", "content": "Hello, é 今日は!"}],
    "turns": [{"role": "system", "content": "Be brief. /no_think"}, {"role": "user", "content": "  Hi \n"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes?\n"},
              {"role": "user", "content": "a\r\nb\n\nc\u3000"}, {"role": "assistant", "content": " done\t"}],
    "tools": [{"role": "system", "content": "S"}, {"role": "user", "content": "Weather?"},
              {"role": "assistant", "tool_calls": [{"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź", "days": 2, "x": [1.5, None, True]}}}]},
              {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "12 \"C\""}, {"role": "assistant", "content": "12."}, {"role": "user", "content": "Thanks"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": " Look "}, {"type": "image"}, {"type": "text", "text": "here"}]}, {"role": "assistant", "content": "ok"}],
    "two-users": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}],
    "empty": [],
}
OPTIONS = [{}, {"add_generation_prompt": True}, {"add_generation_prompt": True, "tools": [WEATHER, NOTHING], "variables": {"enable_thinking": False}},
           {"documents": [{"title": "T", "text": "D1", "n": 1}, {"title": "U", "text": "D2"}]}]


def digest(text):
    h = 1469598103934665603
    for b in text.encode():
        h = ((h ^ b) * 1099511628211) & M
    return h


def render(template, messages, o):
    kwargs = {**TOKENS, **o.get("variables", {})}
    return render_jinja_template([messages], tools=o.get("tools"), documents=o.get("documents"), chat_template=template,
                                 add_generation_prompt=o.get("add_generation_prompt", False), **kwargs)[0][0]


def lua(text):
    level = 2
    while "]" + "=" * level + "]" in text:
        level += 1
    return "[" + "=" * level + "[" + text + "]" + "=" * level + "]"


def main():
    lines = [f"-- Made by chat.py with transformers {transformers.__version__} and jinja2 {jinja2.__version__}.", "return {", "  tokens = " + lua(json.dumps(TOKENS)) + ",", "  conversations = {"]
    lines += [f"    {{name = {json.dumps(n)}, text = {lua(json.dumps(c, ensure_ascii=False))}}}," for n, c in CONVERSATIONS.items()]
    lines += ["  },", "  options = {"] + [f"    {lua(json.dumps(o, ensure_ascii=False))}," for o in OPTIONS] + ["  },", "  templates = { -- a text for each conversation and options"]
    good = bad = 0
    for name, template in TEMPLATES.items():
        row = []
        for c, messages in CONVERSATIONS.items():
            for i, o in enumerate(OPTIONS):
                try:
                    text = render(template, json.loads(json.dumps(messages)), o)
                    row.append(f"0x{digest(text):016x}")
                    good += 1
                    if os.environ.get("SHOW"):
                        with open(f"{os.environ['SHOW']}/{name}-{c}-{i + 1}", "w") as f:
                            f.write(text)
                except jinja2.exceptions.TemplateError as e:
                    raised = type(e) is jinja2.exceptions.TemplateError
                    row.append(json.dumps(str(e)) if raised else "false")
                    bad += 1
                except (TypeError, ValueError, KeyError, IndexError, RecursionError):
                    row.append("false")
                    bad += 1
        lines.append(f"    {{name = {json.dumps(name)}, texts = {{{', '.join(row)}}}}},")
    with open(os.path.join(HERE, "chat.lua"), "w") as f:
        f.write("\n".join(lines + ["  },", "}"]) + "\n")
    print(f"{good} texts and {bad} errors")


main()
