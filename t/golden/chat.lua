-- Made by chat.py with transformers 5.24.0 and jinja2 3.1.6.
return {
  tokens = [==[
{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}]==],
  conversations = {
    ["hello"] = [==[
[{"role": "user", "content": "Hello, é 今日は!"}]]==],
    ["turns"] = [==[
[{"role": "system", "content": "Be brief. /no_think"}, {"role": "user", "content": "  Hi \n"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes?\n"}, {"role": "user", "content": "a\r\nb\n\nc　"}, {"role": "assistant", "content": " done\t"}]]==],
    ["tools"] = [==[
[{"role": "system", "content": "S"}, {"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": [{"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź", "days": 2, "x": [1.5, null, true]}}}]}, {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "12 \"C\""}, {"role": "assistant", "content": "12."}, {"role": "user", "content": "Thanks"}]]==],
    ["parts"] = [==[
[{"role": "user", "content": [{"type": "text", "text": " Look "}, {"type": "image"}, {"type": "text", "text": "here"}]}, {"role": "assistant", "content": "ok"}]]==],
    ["two-users"] = [==[
[{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]]==],
    ["empty"] = [==[
[]]==],
  },
  options = {
    [==[
{}]==],
    [==[
{"add_generation_prompt": true}]==],
    [==[
{"add_generation_prompt": true, "tools": [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city's \"name\", é"}, "unit": {"type": "string", "enum": ["c", "f"], "default": "c", "description": "Unit"}, "days": {"type": ["integer", "null"], "description": "Days"}, "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"}}, "required": ["city"]}}}, {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {"type": "object", "properties": {}, "required": []}}}], "variables": {"enable_thinking": false}}]==],
    [==[
{"documents": [{"title": "T", "text": "D1", "n": 1}, {"title": "U", "text": "D2"}]}]==],
  },
  templates = {
    {name = "chatml", text = [==[
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}]==], rows = {
      ["hello"] = {0x5f591f50c976c592, 0x26f999196ee9d493, 0x26f999196ee9d493, 0x5f591f50c976c592},
      ["turns"] = {0xd26278d71c4ef853, 0x7f8738a931eee77a, 0x7f8738a931eee77a, 0xd26278d71c4ef853},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0x614e1e8494e736f9, 0x277f04e2e63c436c, 0x277f04e2e63c436c, 0x614e1e8494e736f9},
      ["empty"] = {0x14650fb0739d0383, 0xf5065d475b4dcfaa, 0xf5065d475b4dcfaa, 0x14650fb0739d0383},
    }},
    {name = "chatml-default", text = [==[
{%- if messages[0]['role'] != 'system' -%}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message.role ~ '\n' -}}
    {{- message.content | trim -}}
    {{- '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
]==], rows = {
      ["hello"] = {0xabcf16a3b9db9d78, 0x8847da3275c67b5d, 0x8847da3275c67b5d, 0xabcf16a3b9db9d78},
      ["turns"] = {0x43884c54b778a991, 0x7092496cdf8720c4, 0x7092496cdf8720c4, 0x43884c54b778a991},
      ["tools"] = {0x730fdd253eb94780, 0x71de89a189f5fb45, 0x71de89a189f5fb45, 0x730fdd253eb94780},
      ["parts"] = {0x5648bfac1db19806, 0x1eca82e81928545f, 0x1eca82e81928545f, 0x5648bfac1db19806},
      ["two-users"] = {0xad227d7d2b2bd1f3, 0x1f558b752470401a, 0x1f558b752470401a, 0xad227d7d2b2bd1f3},
      ["empty"] = {false, false, false, false},
    }},
    {name = "llama2", text = [==[
{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate user/assistant/user/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}]==], rows = {
      ["hello"] = {0x17affdd46a1ea27c, 0x17affdd46a1ea27c, 0x17affdd46a1ea27c, 0x17affdd46a1ea27c},
      ["turns"] = {0xf6c5709043c33648, 0xf6c5709043c33648, 0xf6c5709043c33648, 0xf6c5709043c33648},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {"Roles must alternate user/assistant/user/...", "Roles must alternate user/assistant/user/...", "Roles must alternate user/assistant/user/...", "Roles must alternate user/assistant/user/..."},
      ["empty"] = {false, false, false, false},
    }},
    {name = "llama3", text = [==[
{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}]==], rows = {
      ["hello"] = {0x77c610f3156cb4c3, 0x679b0ad718374158, 0x679b0ad718374158, 0x77c610f3156cb4c3},
      ["turns"] = {0x3e8c6bf1d6fc189c, 0x937eb807f8179789, 0x937eb807f8179789, 0x3e8c6bf1d6fc189c},
      ["tools"] = {0x9d5fe09a52b78f5d, 0x54b99b6ac9b05b92, 0x54b99b6ac9b05b92, 0x9d5fe09a52b78f5d},
      ["parts"] = {0xd90032a26ebc290b, 0x395b419895bc6ee0, 0x395b419895bc6ee0, 0xd90032a26ebc290b},
      ["two-users"] = {0xf26397db732554be, 0x48b65758cce16f43, 0x48b65758cce16f43, 0xf26397db732554be},
      ["empty"] = {0x14650fb0739d0383, 0x4fd955e92ed57b18, 0x4fd955e92ed57b18, 0x14650fb0739d0383},
    }},
    {name = "llama3.1", text = [==[
{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%Y")[:2] %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none %}
    {{- "Functions:\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
]==], rows = {
      ["hello"] = {0x7334df5add788a52, 0x604a55d7ddbd1d1f, 0xbdf2f24323cc5807, 0x7334df5add788a52},
      ["turns"] = {0x882128ccf29a503b, 0x96c66cce61855f90, 0xfaeb8813dc2b6868, 0x882128ccf29a503b},
      ["tools"] = {0x4bdb6f9a83ccec49, 0xf6e5c8d4ea5f5a06, 0x63db130143abd34e, 0x4bdb6f9a83ccec49},
      ["parts"] = {0x098b5888d5b9341e, 0x70d82bf37c7c1623, 0x977f576be310f4ab, 0x098b5888d5b9341e},
      ["two-users"] = {0x75c48368d486ec8f, 0xcb22a22be3c0214c, 0x31d78c95d5fd7e34, 0x75c48368d486ec8f},
      ["empty"] = {false, false, false, false},
    }},
    {name = "mistral-v1", text = [==[
{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}]==], rows = {
      ["hello"] = {0x17affdd46a1ea27c, 0x17affdd46a1ea27c, 0x17affdd46a1ea27c, 0x17affdd46a1ea27c},
      ["turns"] = {"Conversation roles must alternate", "Conversation roles must alternate", "Conversation roles must alternate", "Conversation roles must alternate"},
      ["tools"] = {"Conversation roles must alternate", "Conversation roles must alternate", "Conversation roles must alternate", "Conversation roles must alternate"},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {"Conversation roles must alternate", "Conversation roles must alternate", "Conversation roles must alternate", "Conversation roles must alternate"},
      ["empty"] = {0xb27d2950623858ac, 0xb27d2950623858ac, 0xb27d2950623858ac, 0xb27d2950623858ac},
    }},
    {name = "mistral-v3", text = [==[
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
]==], rows = {
      ["hello"] = {0xacd8307a803059ae, 0xacd8307a803059ae, 0xa59e04a1fccde962, 0xacd8307a803059ae},
      ["turns"] = {0x93b71b6d055671dd, 0x93b71b6d055671dd, 0x521342dcaaaf398d, 0x93b71b6d055671dd},
      ["tools"] = {0x4ed91665bb2ba0f9, 0x4ed91665bb2ba0f9, 0xb6a2a01a873b8f75, 0x4ed91665bb2ba0f9},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {"After the optional system message, roles must alternate", "After the optional system message, roles must alternate", "After the optional system message, roles must alternate", "After the optional system message, roles must alternate"},
      ["empty"] = {false, false, false, false},
    }},
    {name = "gemma", text = [==[
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}]==], rows = {
      ["hello"] = {0x97debc39d3d94955, 0x90df33d3ae9c1f92, 0x90df33d3ae9c1f92, 0x97debc39d3d94955},
      ["turns"] = {"System role not supported", "System role not supported", "System role not supported", "System role not supported"},
      ["tools"] = {"System role not supported", "System role not supported", "System role not supported", "System role not supported"},
      ["parts"] = {0x01dc4fc9c2501a8e, 0xe2cf7585f114f97f, 0xe2cf7585f114f97f, 0x01dc4fc9c2501a8e},
      ["two-users"] = {"Conversation roles must alternate user/assistant/user/assistant/...", "Conversation roles must alternate user/assistant/user/assistant/...", "Conversation roles must alternate user/assistant/user/assistant/...", "Conversation roles must alternate user/assistant/user/assistant/..."},
      ["empty"] = {false, false, false, false},
    }},
    {name = "gemma3", text = [==[
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
]==], rows = {
      ["hello"] = {0x97debc39d3d94955, 0x90df33d3ae9c1f92, 0x90df33d3ae9c1f92, 0x97debc39d3d94955},
      ["turns"] = {0x2e95bb72bfc39480, 0x52136a3859aff819, 0x52136a3859aff819, 0x2e95bb72bfc39480},
      ["tools"] = {0x948d07523ab9a291, 0x97bd38ba29c05ac6, 0x97bd38ba29c05ac6, 0x948d07523ab9a291},
      ["parts"] = {0x89ba7c3a7f6bf07b, 0x86f7e5df86e2cb10, 0x86f7e5df86e2cb10, 0x89ba7c3a7f6bf07b},
      ["two-users"] = {0x4e988fa7f8aec8de, 0xec6481cc09f30e4f, 0xec6481cc09f30e4f, 0x4e988fa7f8aec8de},
      ["empty"] = {false, false, false, false},
    }},
    {name = "phi3", text = [==[
{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}]==], rows = {
      ["hello"] = {0xb785937503fb07da, 0xcefd65cfb34048d2, 0xcefd65cfb34048d2, 0xb785937503fb07da},
      ["turns"] = {0x7c7350890b742bdd, 0x42a88948d4b02b49, 0x42a88948d4b02b49, 0x7c7350890b742bdd},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xf9c4cb2073771701, 0x72b7e39c7062a82d, 0x72b7e39c7062a82d, 0xf9c4cb2073771701},
      ["empty"] = {0x65c20b9522116b43, 0x781ecb792d4f41a3, 0x781ecb792d4f41a3, 0x65c20b9522116b43},
    }},
    {name = "phi4", text = [==[
{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] in ['user', 'tool']) %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' ~ message['content'] ~ '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}]==], rows = {
      ["hello"] = {0x4efe9913ab5d0e17, 0xf6e690f9ef06b11b, 0xf6e690f9ef06b11b, 0x4efe9913ab5d0e17},
      ["turns"] = {0x27d23b9c47ef617e, 0x58723fd80ac9b3cc, 0x58723fd80ac9b3cc, 0x27d23b9c47ef617e},
      ["tools"] = {0x2e9f50e318565ae1, 0xf3dcb99147a435fd, 0xf3dcb99147a435fd, 0x2e9f50e318565ae1},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xd452cfbae2aba067, 0x65e023ae48d33eeb, 0x65e023ae48d33eeb, 0xd452cfbae2aba067},
      ["empty"] = {0x14650fb0739d0383, 0xcedcd64e0e9403af, 0xcedcd64e0e9403af, 0x14650fb0739d0383},
    }},
    {name = "phi4-mini", text = [==[
{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + (message['content'] or '') + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}]==], rows = {
      ["hello"] = {0x897d566ddff07ec2, 0xad7be7ed2e8f5f94, 0xad7be7ed2e8f5f94, 0x897d566ddff07ec2},
      ["turns"] = {0x98092ed9fb5cf24b, 0x8ad9d675e7e7afe3, 0x8ad9d675e7e7afe3, 0x98092ed9fb5cf24b},
      ["tools"] = {0xde73f9eb77ca8d0a, 0x71b3a7529a4f6c3c, 0x71b3a7529a4f6c3c, 0xde73f9eb77ca8d0a},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xfb9a88b37a2c94c1, 0x431dda6c4c569fd5, 0x431dda6c4c569fd5, 0xfb9a88b37a2c94c1},
      ["empty"] = {0x65c20b9522116b43, 0xc998410465ea685b, 0xc998410465ea685b, 0x65c20b9522116b43},
    }},
    {name = "zephyr", text = [==[
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}]==], rows = {
      ["hello"] = {0x866861f9b37601bd, 0x68f5f325c36159ed, 0x68f5f325c36159ed, 0x866861f9b37601bd},
      ["turns"] = {0xf6b19d4bd647c19a, 0x8d86110bdbf6bebe, 0x8d86110bdbf6bebe, 0xf6b19d4bd647c19a},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xa90037f22774fe2b, 0x12c697677d914b9b, 0x12c697677d914b9b, 0xa90037f22774fe2b},
      ["empty"] = {0x14650fb0739d0383, 0x14650fb0739d0383, 0x14650fb0739d0383, 0x14650fb0739d0383},
    }},
    {name = "vicuna", text = [==[
{% if messages[0].role == 'system' %}{{ messages[0].content }}{% set messages = messages[1:] %}{% else %}A chat.{% endif %}{% for m in messages %} {{ 'USER: ' ~ m.content if m.role == 'user' else 'ASSISTANT: ' ~ m.content ~ eos_token }}{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}]==], rows = {
      ["hello"] = {0x3e46f01b6a78d4e6, 0x2de09f6f413ad15c, 0x2de09f6f413ad15c, 0x3e46f01b6a78d4e6},
      ["turns"] = {0xd34926b6bd0b6925, 0x21cd8331ce8caad5, 0x21cd8331ce8caad5, 0xd34926b6bd0b6925},
      ["tools"] = {0xf5204832c0130b5f, 0x25ce622ff7f638bf, 0x25ce622ff7f638bf, 0xf5204832c0130b5f},
      ["parts"] = {0xa2e77c79f7f150c5, 0xe9d4f19bf988f7b5, 0xe9d4f19bf988f7b5, 0xa2e77c79f7f150c5},
      ["two-users"] = {0x8183a4835b0ffe14, 0x5ec3b8d5d543dd42, 0x5ec3b8d5d543dd42, 0x8183a4835b0ffe14},
      ["empty"] = {false, false, false, false},
    }},
    {name = "alpaca", text = [==[
{{ (messages|selectattr('role', 'equalto', 'system')|list|last).content|trim if (messages|selectattr('role', 'equalto', 'system')|list) else '' }}

{% for message in messages %}
{% if message['role'] == 'user' %}
### Instruction:
{{ message['content']|trim -}}
{% if not loop.last %}


{% endif %}
{% elif message['role'] == 'assistant' %}
### Response:
{{ message['content']|trim -}}
{% if not loop.last %}


{% endif %}
{% endif %}
{% endfor %}
{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}

### Response:
{% endif %}]==], rows = {
      ["hello"] = {0xa067532b0570d02f, 0xefe3e95bd891d479, 0xefe3e95bd891d479, 0xa067532b0570d02f},
      ["turns"] = {0x4bce245e9b590333, 0x4bce245e9b590333, 0x4bce245e9b590333, 0x4bce245e9b590333},
      ["tools"] = {0xf016d51ceaf794bd, 0x4f5de147223be77f, 0x4f5de147223be77f, 0xf016d51ceaf794bd},
      ["parts"] = {0x610fb17e52edc072, 0x610fb17e52edc072, 0x610fb17e52edc072, 0x610fb17e52edc072},
      ["two-users"] = {0x615ca388690a4861, 0xe43bceb4d491cecb, 0xe43bceb4d491cecb, 0x615ca388690a4861},
      ["empty"] = {0x9a7d6d00c559faf3, false, false, 0x9a7d6d00c559faf3},
    }},
    {name = "deepseek", text = [==[
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments']|tojson + '\n' + '```'}}{%- set ns.is_first = true -%}{%- else %}{{'\n' + tool['function']['name']}}{%- endif %}{%- endfor %}{{'<｜end｜>'}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + eos_token}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + eos_token}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜>' + message['content'] + '<｜end｜>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\n' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\n'}}{% endif %}]==], rows = {
      ["hello"] = {0xa5566936f09e426c, 0x6a728c726e77b906, 0x6a728c726e77b906, 0xa5566936f09e426c},
      ["turns"] = {0xfacba8bdebf7c0b6, 0x9da8e4406d906c60, 0x9da8e4406d906c60, 0xfacba8bdebf7c0b6},
      ["tools"] = {0x9b6013de615943ce, 0x68396b648f1ddc98, 0x68396b648f1ddc98, 0x9b6013de615943ce},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0x7002340f629240bc, 0x09f8132b36673436, 0x09f8132b36673436, 0x7002340f629240bc},
      ["empty"] = {0xb27d2950623858ac, 0xa21dd692ccc1bec6, 0xa21dd692ccc1bec6, 0xb27d2950623858ac},
    }},
    {name = "qwen2.5", text = [==[
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are helpful.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nReturn {\"name\": <function-name>, \"arguments\": <args-json-object>}<|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are helpful.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
]==], rows = {
      ["hello"] = {0x2e036b2817c22fd3, 0x24efc8cb3a2e22fa, 0x9efa50f776c8380b, 0x2e036b2817c22fd3},
      ["turns"] = {0xd26278d71c4ef853, 0x7f8738a931eee77a, 0x717ef8147b821f59, 0xd26278d71c4ef853},
      ["tools"] = {0x0c736a8ad2ac183b, 0x49c78aad38903042, 0xa2b571e46c5708b1, 0x0c736a8ad2ac183b},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xc371457fd1903274, 0x9296a646052e80d1, 0x16006f50602f0514, 0xc371457fd1903274},
      ["empty"] = {false, false, false, false},
    }},
    {name = "qwen3", text = [==[
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system") %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' + content + '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}]==], rows = {
      ["hello"] = {0x5f591f50c976c592, 0x26f999196ee9d493, 0xb1aa355d22b1af54, 0x5f591f50c976c592},
      ["turns"] = {0x75d6fd4b95ccddaa, 0x9ca11d6e5afa238b, 0xca0dd961761d952c, 0x75d6fd4b95ccddaa},
      ["tools"] = {0x0c736a8ad2ac183b, 0x49c78aad38903042, 0xbaf6255ada7bbdbf, 0x0c736a8ad2ac183b},
      ["parts"] = {0xb267d944e9e6434a, 0xa1059d63bb5b3a2b, 0xd6485a8776b7d54c, 0xb267d944e9e6434a},
      ["two-users"] = {0x614e1e8494e736f9, 0x277f04e2e63c436c, 0x67a22e4ffd33f6f1, 0x614e1e8494e736f9},
      ["empty"] = {0x14650fb0739d0383, 0xf5065d475b4dcfaa, 0x0092aff362ae7027, 0x14650fb0739d0383},
    }},
    {name = "command-r", text = [==[
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|START|><|SYSTEM|>' + system_message + '<|END|>' }}{% endif %}{% for message in loop_messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START|><|USER|>' + content.strip() + '<|END|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START|><|CHATBOT|>'  + (content or '').strip() + '<|END|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START|><|CHATBOT|>' }}{% endif %}]==], rows = {
      ["hello"] = {0x294e031fe37bf9f5, 0x04924eebbe73ca36, 0x04924eebbe73ca36, 0x294e031fe37bf9f5},
      ["turns"] = {0xe28b5c1f4f601108, 0x6a79b2173f81e013, 0x6a79b2173f81e013, 0xe28b5c1f4f601108},
      ["tools"] = {0x9e12ac0095dcfdfa, 0x195ebf743859dc01, 0x195ebf743859dc01, 0x9e12ac0095dcfdfa},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0x964414a30685cf72, 0x66e1d51601dca8f9, 0x66e1d51601dca8f9, 0x964414a30685cf72},
      ["empty"] = {false, false, false, false},
    }},
    {name = "command-r-tools", text = [==[
{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool"
} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "List[" +  json_to_python_type(json_spec.items) + "]"}}
{%- elif json_spec.type == "object" %}
    {{- "Dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}
{%- elif json_spec.type is iterable %}
    {{- "Union[" }}
    {%- for t in json_spec.type %}
      {{- json_to_python_type({"type": t}) }}
      {%- if not loop.last %}
        {{- "," }}
    {%- endif %}
    {%- endfor %}
    {{- "]" }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- macro old_tool_parser(tools) %}
{%- for tool in tools %}
    {%- if loop.index0 != 0 %}
        {{- '\n\n' }}
    {%- endif %}
    {{- '```python\ndef ' + tool.function.name + '(' }}
    {%- for param_name, param_fields in tool.function.parameters.properties|items %}
        {%- if loop.index0 != 0 %}
            {{- ', '}}
        {%- endif %}
        {{- param_name + ': ' }}
        {%- if not param_name in tool.function.parameters.required %}
            {{- 'Optional[' + json_to_python_type(param_fields) + '] = None'}}
        {%- else %}
            {{- json_to_python_type(param_fields) }}
        {%- endif %}
    {%- endfor %}
    {{- ') -> List[Dict]:\n    '}}
    {{- tool.function.description }}
    {%- if tool.function.parameters.properties|length != 0 %}
        {{- '\n\n    Args:\n        '}}
        {%- for param_name, param_fields in tool.function.parameters.properties.items() %}
            {%- if loop.index0 != 0 %}
                {{- '\n        ' }}
            {%- endif %}
            {{- param_name + ' ('}}
            {{- json_to_python_type(param_fields) + '): ' + param_fields.description }}
        {%- endfor %}
    {%- endif %}
    {{- '\n    pass\n```' }}
{%- endfor %}
{%- endmacro %}
{{- bos_token }}{{ old_tool_parser(tools or []) }}
{%- for message in messages -%}
<{{ message.role|upper }}>{{ message.content|default('none', true) }}
{%- endfor -%}
{%- for doc in documents or [] %}

Document: {{ loop.index0 }}
title: {{ doc.title }}
{%- for key, value in doc|items if key != 'title' %}

{{ key }}: {{ value }}
{%- endfor %}
{%- endfor %}]==], rows = {
      ["hello"] = {0xbbf6358da7c58f36, 0xbbf6358da7c58f36, false, 0x4c3160537a9ee28a},
      ["turns"] = {0x37f66c4163cd3b55, 0x37f66c4163cd3b55, false, 0x5d09f8c41c8265e7},
      ["tools"] = {0x455e43d48d08b62b, 0x455e43d48d08b62b, false, 0x5c1fe5ff509d7b19},
      ["parts"] = {0xa1c78f789a574ad7, 0xa1c78f789a574ad7, false, 0xef107b97256c15d5},
      ["two-users"] = {0x18b79a056250f8e0, 0x18b79a056250f8e0, false, 0x84c48bdae68a79a0},
      ["empty"] = {0xb27d2950623858ac, 0xb27d2950623858ac, false, 0xa36711b84dd5a34c},
    }},
    {name = "granite", text = [==[
{%- if tools %}
    {{- '<|start_of_role|>available_tools<|end_of_role|>
' }}
    {%- for tool in tools %}
    {{- tool | tojson(indent=4) }}
    {%- if not loop.last %}
        {{- '

' }}
    {%- endif %}
    {%- endfor %}
    {{- '<|end_of_text|>
' }}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
    {{- '<|start_of_role|>system<|end_of_role|>' + message['content'] + '<|end_of_text|>
' }}
    {%- elif message['role'] == 'user' %}
    {{- '<|start_of_role|>user<|end_of_role|>' + message['content'] + '<|end_of_text|>
' }}
    {%- elif message['role'] == 'assistant' %}
    {{- '<|start_of_role|>assistant<|end_of_role|>'  ~ message['content'] ~ '<|end_of_text|>
' }}
    {%- endif %}
    {%- if loop.last and add_generation_prompt %}
    {{- '<|start_of_role|>assistant<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}]==], rows = {
      ["hello"] = {0x994d8ff2335f23ed, 0x601c334a7b9c859a, 0x55a6abbd03b6d5f6, 0x994d8ff2335f23ed},
      ["turns"] = {0x778aeaafc7e0efa6, 0xf468305d8cb3324f, 0x73aaf26c63730103, 0x778aeaafc7e0efa6},
      ["tools"] = {0x5f2ac50f5cd25dc6, 0x3d33de1533ed69ef, 0xe6be2f438260f693, 0x5f2ac50f5cd25dc6},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xd57b1d92a17062bf, 0x3ab1f3d9c4d0813c, 0x810c9ca4acb67040, 0xd57b1d92a17062bf},
      ["empty"] = {0x14650fb0739d0383, 0x14650fb0739d0383, 0x62ffffec07c51cdf, 0x14650fb0739d0383},
    }},
    {name = "olmo", text = [==[
{{ eos_token }}{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}]==], rows = {
      ["hello"] = {0xe36f84d7cf8eb9e9, 0xdc704dfd1c828561, 0xdc704dfd1c828561, 0xe36f84d7cf8eb9e9},
      ["turns"] = {0x04b4de152e7aa4bd, 0xb0ab2cbf727304ed, 0xb0ab2cbf727304ed, 0x04b4de152e7aa4bd},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0x23cb9e221f5332f3, 0x5e9ae999402d7df3, 0x5e9ae999402d7df3, 0x23cb9e221f5332f3},
      ["empty"] = {0x65c20b9522116b43, 0x65c20b9522116b43, 0x65c20b9522116b43, 0x65c20b9522116b43},
    }},
    {name = "olmo2-generation", text = [==[
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{- '<|assistant|>\n' -}}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}{{ '\n' if not loop.last }}
{%- else -%}
{{- '<|' + message['role'] + '|>\n' + message['content'] + '\n' -}}
{%- endif -%}
{%- if loop.last and add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}
{%- endfor -%}]==], rows = {
      ["hello"] = {0x0fe22c7536657ad2, 0xf37f183898be3a06, 0xf37f183898be3a06, 0x0fe22c7536657ad2},
      ["turns"] = {0x54872aa5ebe5023b, 0x3153c56a8402804b, 0x3153c56a8402804b, 0x54872aa5ebe5023b},
      ["tools"] = {0xf0a87f81ae5e7c9f, 0x75116723bbf4aaf7, 0x75116723bbf4aaf7, 0xf0a87f81ae5e7c9f},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0xe126af4c8c3235d0, 0xbd155a7542c3c7b4, 0xbd155a7542c3c7b4, 0xe126af4c8c3235d0},
      ["empty"] = {0xb27d2950623858ac, 0xb27d2950623858ac, 0xb27d2950623858ac, 0xb27d2950623858ac},
    }},
    {name = "falcon", text = [==[
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if message['role'] == 'system' %}{{ 'System: ' }}{% elif message['role'] == 'user' %}{{ 'User: ' }}{% elif message['role'] == 'assistant' %}{{ 'Falcon: ' }}{% endif %}{{ message['content']|string|replace('\r\n', '\n')|replace('\n\n', '\n') }}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}]==], rows = {
      ["hello"] = {0xbd7da5fe6f4ea3ff, 0xe9931d8fcb5dc7b0, 0xe9931d8fcb5dc7b0, 0xbd7da5fe6f4ea3ff},
      ["turns"] = {0xccb72758855fb869, 0x7dbbc595f4f6eae2, 0x7dbbc595f4f6eae2, 0xccb72758855fb869},
      ["tools"] = {0x456f463ac1a74bee, 0x1f28b0b3a04d3f59, 0x1f28b0b3a04d3f59, 0x456f463ac1a74bee},
      ["parts"] = {0x320fc3b347a4e0e1, 0xc211f95bb8acf7aa, 0xc211f95bb8acf7aa, 0x320fc3b347a4e0e1},
      ["two-users"] = {0x298d73b8dfd4dd7d, 0x3cca39c9ff424e26, 0x3cca39c9ff424e26, 0x298d73b8dfd4dd7d},
      ["empty"] = {0x14650fb0739d0383, 0x7df99edee0a1a414, 0x7df99edee0a1a414, 0x14650fb0739d0383},
    }},
    {name = "gpt-oss", text = [==[
{#- renders parameters as types -#}
{%- macro render_typescript_type(param_spec, required_params, is_nullable=false) -%}
    {%- if param_spec.type == "array" -%}
        {%- if param_spec['items'] -%}
            {%- if param_spec['items']['type'] == "string" -%}{{- "string[]" }}{%- else -%}{{- "any[]" }}{%- endif -%}
            {%- if param_spec.nullable -%}{{- " | null" }}{%- endif -%}
        {%- endif -%}
    {%- elif param_spec.type is defined and param_spec.type is iterable and param_spec.type is not string and param_spec.type is not mapping and param_spec.type[0] is defined -%}
        {%- if param_spec.type | length > 1 -%}{{- param_spec.type | join(" | ") }}{%- else -%}{{- param_spec.type[0] }}{%- endif -%}
    {%- elif param_spec.type == "string" -%}
        {%- if param_spec.enum -%}{{- '"' + param_spec.enum|join('" | "') + '"' -}}{%- else -%}{{- "string" }}{%- endif -%}
    {%- elif param_spec.type == "number" or param_spec.type == "integer" -%}{{- "number" }}
    {%- else -%}{{- "any" }}{%- endif -%}
{%- endmacro -%}
{%- macro render_tool_namespace(namespace_name, tools) -%}
    {{- "## " + namespace_name + "\n\n" }}
    {{- "namespace " + namespace_name + " {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\n" }}
        {{- "type "+ tool.name + " = " }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- "(_: {\n" }}
            {%- for param_name, param_spec in tool.parameters.properties.items() %}
                {%- if param_spec.description %}{{- "// " + param_spec.description + "\n" }}{%- endif %}
                {{- param_name }}
                {%- if param_name not in (tool.parameters.required or []) -%}{{- "?" }}{%- endif -%}
                {{- ": " }}
                {{- render_typescript_type(param_spec, tool.parameters.required or []) }}
                {%- if param_spec.default is defined -%}
                    {%- if param_spec.enum %}{{- ", // default: " + param_spec.default }}{%- else %}{{- ", // default: " + param_spec.default|tojson }}{%- endif -%}
                {%- endif -%}
                {%- if not loop.last %}{{- ",\n" }}{%- else %}{{- "\n" }}{%- endif -%}
            {%- endfor %}
            {{- "}) => any;\n\n" }}
        {%- else -%}{{- "() => any;\n\n" }}{%- endif -%}
    {%- endfor %}
    {{- "} // namespace " + namespace_name }}
{%- endmacro -%}
{%- macro build_system_message() -%}
    {%- if model_identity is not defined %}{%- set model_identity = "You are a model." %}{%- endif %}
    {{- model_identity + "\n" }}
    {{- "Current year: " + strftime_now("%Y")|length|string + "\n\n" }}
    {%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
    {{- "Reasoning: " + reasoning_effort + "\n\n" }}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}{{- build_system_message() }}{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if developer_message or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if developer_message %}{{- "# Instructions\n\n" }}{{- developer_message }}{%- endif %}
    {%- if tools -%}{{- "\n\n# Tools\n\n" }}{{- render_tool_namespace("functions", tools) }}{%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- "<|start|>assistant to=" }}{{- "functions." + tool_call.name + "<|channel|>commentary " }}
            {{- (tool_call.content_type if tool_call.content_type is defined else "json") + "<|message|>" }}
            {{- tool_call.arguments|tojson }}{{- "<|call|>" }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}{{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}{%- endif %}
        {{- "<|start|>functions." + last_tool_call.name }}{{- " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}]==], rows = {
      ["hello"] = {0x732854ba0c38c1ec, 0xf5e335cc316e7d92, 0xbd48dff0404669e0, 0x732854ba0c38c1ec},
      ["turns"] = {0x3ded612225f40161, 0x94854cc89be307ee, 0x2dac67dc76f72310, 0x3ded612225f40161},
      ["tools"] = {0x98530da4bfb7d1c6, 0x76ada7dba1098580, 0xbf7c9310dde5136e, 0x98530da4bfb7d1c6},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {0x1958ef0359e463e8, 0x4e535008acc95526, 0xf45a040bf595cc44, 0x1958ef0359e463e8},
      ["empty"] = {false, false, false, false},
    }},
    {name = "hermes-tools", text = [==[
{%- macro call(c) %}{"name": "{{ c.name }}", "arguments": {{ c.arguments|tojson }}}{% endmacro -%}
{{ bos_token }}{% for t in tools|default([], true) %}{{ t.function.name }}({% for n, p in t.function.parameters.properties.items() %}{{ n }}:{{ p.type if p.type is string else p.type|join('/') }}{{ '' if loop.last else ', ' }}{% endfor %}) {% endfor %}
{%- for m in messages %}[{{ loop.index }}/{{ loop.length }}{{ '!' if loop.revindex0 == 0 }}] {{ loop.cycle('odd', 'even') }}
{%- if m.tool_calls is defined %}{% for c in m.tool_calls %} <tool_call>{{ call(c.function) }}</tool_call>{% endfor %}{% else %} {{ m.content|string|trim|upper if m.role == 'system' else m.content }}{% endif %}
{% else %}no messages{% endfor %}]==], rows = {
      ["hello"] = {0x7b9c6f380f0fcc78, 0x7b9c6f380f0fcc78, 0x77c7f897a944ba6f, 0x7b9c6f380f0fcc78},
      ["turns"] = {0x2a07316d99bf0179, 0x2a07316d99bf0179, 0x189ea46ef62d4370, 0x2a07316d99bf0179},
      ["tools"] = {0xca947f62bb8c5982, 0xca947f62bb8c5982, 0x48ee8151317510a9, 0xca947f62bb8c5982},
      ["parts"] = {0x4ba0756e3d447efd, 0x4ba0756e3d447efd, 0xb5df1f892ba0935a, 0x4ba0756e3d447efd},
      ["two-users"] = {0x5fe3811897eb873b, 0x5fe3811897eb873b, 0x2a362a64fa69418a, 0x5fe3811897eb873b},
      ["empty"] = {0xeb0d69f9704d6c41, 0xeb0d69f9704d6c41, 0x9b62d40a14f6d84a, 0xeb0d69f9704d6c41},
    }},
    {name = "smollm3", text = [==[
{%- set defaults = {'mode': '/think', 'n': 3, 'list': [1, 2.5, true, none, 'x']} -%}
{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content -%}{%- if '/no_think' in system -%}{%- set mode = '/no_think' -%}{%- else -%}{%- set mode = defaults.mode -%}{%- endif -%}{%- set custom = system.replace('/no_think', '').replace('/think', '').rstrip() -%}{%- else -%}{%- set mode, custom = defaults['mode'], '' -%}{%- endif -%}
<|im_start|>system
{{ mode }} {{ custom }} {{ defaults }} {{ defaults|tojson }} {{ defaults.list|join(',') }} {{ defaults.list[1:]|length }} {{ defaults.list[-2] }}
{%- for k in defaults %} {{ k }}{% endfor %}<|im_end|>
{% for m in messages if m.role != 'system' -%}
{{ '<|im_start|>' ~ m.role ~ '\n' }}{% if m.content is not string %}{{ m.content|map(attribute='text')|select('defined')|join(' ') if m.content else '' }}{% else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if not (enable_thinking|default(true)) %}<think>

</think>
{% endif %}{% endif %}]==], rows = {
      ["hello"] = {0x7317e27fb41f33a5, 0x004d765f4ae9b920, 0x5ee90dc29231f26d, 0x7317e27fb41f33a5},
      ["turns"] = {0xfa3cc2066b0ae86b, 0x34ad1e4d39a957f2, 0x028cb12e5540b47f, 0xfa3cc2066b0ae86b},
      ["tools"] = {0xc0bd8075824400ad, 0x146cb142eb0432c8, 0x390a46545dd43135, 0xc0bd8075824400ad},
      ["parts"] = {0x9da8619a659e5462, 0x2ec9442b9eec5a23, 0xe961f9e283a306e6, 0x9da8619a659e5462},
      ["two-users"] = {0xfec232fe54bac442, 0x333682bd9f131a03, 0xf22387a8f58e6386, 0xfec232fe54bac442},
      ["empty"] = {false, false, false, false},
    }},
    {name = "exaone", text = [==[
{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '[|system|][|endofturn|]\n' }}{% endif %}{{ '[|' + message['role'] + '|]' + message['content']|string }}{% if loop.last and message.role == 'user' %}{{ '' }}{% elif not loop.last or message['role'] == 'assistant' %}{{ '[|endofturn|]' }}{% endif %}{{ '\n' if not loop.last else '' }}{% endfor %}{% if add_generation_prompt %}{{ '\n[|assistant|]' }}{% endif %}]==], rows = {
      ["hello"] = {0x9a62d4da7d527ea9, 0x55f5ebc1337da60d, 0x55f5ebc1337da60d, 0x9a62d4da7d527ea9},
      ["turns"] = {0x158f7cef83c55ba9, 0x8f30edc7cb777b0d, 0x8f30edc7cb777b0d, 0x158f7cef83c55ba9},
      ["tools"] = {0xf37254c6814ff5e5, 0x956211f8641dc119, 0x956211f8641dc119, 0xf37254c6814ff5e5},
      ["parts"] = {0x4f5c96b6dfb6b5b8, 0x63f2a82437ad5f30, 0x63f2a82437ad5f30, 0x4f5c96b6dfb6b5b8},
      ["two-users"] = {0x1fe03fb245e595e0, 0xd120f913e2a5cc28, 0xd120f913e2a5cc28, 0x1fe03fb245e595e0},
      ["empty"] = {0x14650fb0739d0383, 0xea5ac680d8f4770f, 0xea5ac680d8f4770f, 0x14650fb0739d0383},
    }},
    {name = "yi-break", text = [==[
{%- for m in messages -%}{%- if m.role == 'system' -%}{%- continue -%}{%- endif -%}{%- if loop.index > 3 -%}{{ '...' }}{%- break -%}{%- endif -%}{{ m.role[:1]|upper }}{{ m.role[1:] }}: {{ m.content if m.content is string else m.content|tojson }}
{% endfor -%}]==], rows = {
      ["hello"] = {0x4b25045722a0994f, 0x4b25045722a0994f, 0x4b25045722a0994f, 0x4b25045722a0994f},
      ["turns"] = {0x00989127527303a1, 0x00989127527303a1, 0x00989127527303a1, 0x00989127527303a1},
      ["tools"] = {false, false, false, false},
      ["parts"] = {0x421bd439b4761c54, 0x421bd439b4761c54, 0x421bd439b4761c54, 0x421bd439b4761c54},
      ["two-users"] = {0x70391a2456b45135, 0x70391a2456b45135, 0x70391a2456b45135, 0x70391a2456b45135},
      ["empty"] = {0x14650fb0739d0383, 0x14650fb0739d0383, 0x14650fb0739d0383, 0x14650fb0739d0383},
    }},
    {name = "jamba-set-block", text = [==[
{%- set head -%}  <{{ messages|length }}> {% endset -%}{{ head|trim }}{% filter upper %}abc {{ bos_token }}{% endfilter %}{% set x %}{% for m in messages %}{{ m.role|first }}{% endfor %}{% endset %}{{ x|reverse }}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{% raw %}{{ raw }}{% endraw %}
{%- macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}
{% call wrap('b') %}{{ messages[-1].content }}{% endcall %}
  {# a comment #}
  {% if true %}
    kept
  {% endif %}
	{%+ if true %}x{% endif +%}
end]==], rows = {
      ["hello"] = {0x7b779fc6fdfa1e1b, 0x7b779fc6fdfa1e1b, 0x7b779fc6fdfa1e1b, 0x7b779fc6fdfa1e1b},
      ["turns"] = {0xec6f751ccf15d733, 0xec6f751ccf15d733, 0xec6f751ccf15d733, 0xec6f751ccf15d733},
      ["tools"] = {0xd49b9b7f92f48da6, 0xd49b9b7f92f48da6, 0xd49b9b7f92f48da6, 0xd49b9b7f92f48da6},
      ["parts"] = {0x78d0566669698678, 0x78d0566669698678, 0x78d0566669698678, 0x78d0566669698678},
      ["two-users"] = {0xe8e1640bb2b02222, 0xe8e1640bb2b02222, 0xe8e1640bb2b02222, 0xe8e1640bb2b02222},
      ["empty"] = {false, false, false, false},
    }},
    {name = "expressions", text = [==[
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 / 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' in 'abc' }} {{ not 1 in [2] }} {{ 1 if false }}|{{ none }}|{{ true }}|{{ [] }}|{{ {} }}|{{ ('a', 1)|list }}|{{ 'abc'[::-1] }}|{{ 'abcdef'[1:-1:2] }}|{{ 'héé'|length }}|{{ 'héé'[1] }}|{{ [3,1,2]|sort }}|{{ [3,1,2]|sort(reverse=true)|first }}|{{ [1,2,3]|sum }}|{{ ['b','A','c']|sort|join }}|{{ {'b': 1, 'a': 2}|dictsort }}|{{ [1,1,2]|unique|list }}|{{ range(3)|list }}|{{ range(5, 0, -2)|list }}|{{ 'a b  c'.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'x'|default('y') }}|{{ undefined_name|default('y') }}|{{ ''|default('z', true) }}|{{ '5'|int + 1 }}|{{ '2.5'|float }}|{{ 3.7|int }}|{{ 2.5|round }}|{{ -3|abs }}|{{ 'title case'|title }}|{{ 'cAP'|capitalize }}|{{ 'aXbX'.replace('X', '-') }}|{{ 'aaa'|replace('a', 'b', 2) }}|{{ 'abc'.find('c') }}|{{ 'abc'.upper() }}|{{ 'a\nb'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}|{{ '<&>'|e }}|{{ [1,2,3,4]|select('even')|list }}|{{ [1,2,3]|reject('odd')|list }}|{{ ['a','b']|map('upper')|list }}|{{ [{'a':{'b':1}}]|map(attribute='a.b')|list }}|{{ 5 is divisibleby 5 }}|{{ 'a' is string }}|{{ 1 is number }}|{{ x is defined }}|{{ none is none }}|{{ [] is iterable }}|{{ {} is mapping }}|{{ 'A' is upper }}|{{ 3 is odd }}|{{ 1 is not string }}|{{ 'ab' * 2 }}|{{ [1] + [2] }}|{{ 1 ~ 'a' ~ none }}|{{ "q'uote" }}|{{ ["it's", 'a"b'] }}|{{ {'k': [1, {'n': none}]}|tojson(indent=2) }}|{{ [1.0, 1e20, 0.1, 1e-7, 123456789.25]|tojson }}|{{ 'é\u00e9\x41\t'|tojson }}|{{ [1,2,3]|last }}|{{ [[1,2],[3]]|map('length')|list }}|{{ 'a-b_c'.split('-')|last }}|{{ ' x '.strip() }}|{{ 'xxabxx'.strip('x') }}|{{ 'abc'.startswith(('x','a')) }}|{{ [1,2,3,4,5]|batch(2)|list }}|{{ dict(a=1).items()|list }}|{{ [3,1]|min }}|{{ [3,1]|max }}|{{ 'one two'|wordcount }}|{{ (1, 2) == (1, 2) }}|{{ 'abc'|list }}|{{ '%' }}|{{ [1, 2, 3][:2] }}|{{ 'x' ~ 1 + 2 }}]==], rows = {
      ["hello"] = {false, false, false, false},
      ["turns"] = {false, false, false, false},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {false, false, false, false},
      ["empty"] = {false, false, false, false},
    }},
    {name = "recursive", text = [==[
{%- for item in [{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}]}, {'n': 4}] recursive %}{{ loop.depth }}:{{ item.n }}{% if item.c %}({{ loop(item.c) }}){% endif %}{% if loop.changed(item.n) %}!{% endif %}{{ loop.previtem.n if not loop.first }}{{ loop.nextitem.n if not loop.last }}{% endfor %}]==], rows = {
      ["hello"] = {0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61},
      ["turns"] = {0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61},
      ["tools"] = {0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61},
      ["parts"] = {0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61},
      ["two-users"] = {0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61},
      ["empty"] = {0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61, 0x66308b48a5f6bd61},
    }},
    {name = "syntax-error", text = [==[
line one
{% if x %}
no end]==], rows = {
      ["hello"] = {false, false, false, false},
      ["turns"] = {false, false, false, false},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {false, false, false, false},
      ["empty"] = {false, false, false, false},
    }},
    {name = "undefined-attribute", text = [==[
{{ nothing.at.all }}]==], rows = {
      ["hello"] = {false, false, false, false},
      ["turns"] = {false, false, false, false},
      ["tools"] = {false, false, false, false},
      ["parts"] = {false, false, false, false},
      ["two-users"] = {false, false, false, false},
      ["empty"] = {false, false, false, false},
    }},
    {name = "unknown-filter-if-used", text = [==[
{{ 1|int }}{% if messages|length > 99 %}{{ raise_exception('never') }}{% endif %}]==], rows = {
      ["hello"] = {0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776},
      ["turns"] = {0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776},
      ["tools"] = {0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776},
      ["parts"] = {0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776},
      ["two-users"] = {0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776},
      ["empty"] = {0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776, 0x44bd5ad473cd4776},
    }},
  },
}
