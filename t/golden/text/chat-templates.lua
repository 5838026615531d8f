-- chat-templates.lua - chat templates, which chat.py renders with transformers. Each template uses the constructs
-- that the templates of one family of models use.
return {
["chatml"] = [==[
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}]==],
["chatml-default"] = [==[
{%- if messages[0]['role'] != 'system' -%}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message.role ~ '\n' -}}
    {{- message.content | trim -}}
    {{- '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\n' if add_generation_prompt -}}
]==],
["llama2"] = [==[
{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate user/assistant/user/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}]==],
["llama3"] = [==[
{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}]==],
["llama3.1"] = [==[
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
]==],
["mistral-v1"] = [==[
{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}]==],
["mistral-v3"] = [==[
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
]==],
["gemma"] = [==[
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}]==],
["gemma3"] = [==[
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
]==],
["phi3"] = [==[
{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}]==],
["phi4"] = [==[
{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] in ['user', 'tool']) %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' ~ message['content'] ~ '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}]==],
["phi4-mini"] = [==[
{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + (message['content'] or '') + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}]==],
["vicuna"] = [==[
{% if messages[0].role == 'system' %}{{ messages[0].content }}{% set messages = messages[1:] %}{% else %}A chat.{% endif %}{% for m in messages %} {{ 'USER: ' ~ m.content if m.role == 'user' else 'ASSISTANT: ' ~ m.content ~ eos_token }}{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}]==],
["alpaca"] = [==[
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
{% endif %}]==],
["deepseek"] = [==[
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments']|tojson + '\n' + '```'}}{%- set ns.is_first = true -%}{%- else %}{{'\n' + tool['function']['name']}}{%- endif %}{%- endfor %}{{'<｜end｜>'}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + eos_token}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + eos_token}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜>' + message['content'] + '<｜end｜>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\n' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\n'}}{% endif %}]==],
["qwen2.5"] = [==[
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
]==],
["qwen3"] = [==[
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
{%- endif %}]==],
["command-r"] = [==[
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|START|><|SYSTEM|>' + system_message + '<|END|>' }}{% endif %}{% for message in loop_messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START|><|USER|>' + content.strip() + '<|END|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START|><|CHATBOT|>'  + (content or '').strip() + '<|END|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START|><|CHATBOT|>' }}{% endif %}]==],
["command-r-tools"] = [==[
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
{%- endfor %}]==],
["granite"] = [==[
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
{%- endfor %}]==],
["olmo"] = [==[
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
{% endfor %}]==],
["olmo2-generation"] = [==[
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{- '<|assistant|>\n' -}}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}{{ '\n' if not loop.last }}
{%- else -%}
{{- '<|' + message['role'] + '|>\n' + message['content'] + '\n' -}}
{%- endif -%}
{%- if loop.last and add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}
{%- endfor -%}]==],
["falcon"] = [==[
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if message['role'] == 'system' %}{{ 'System: ' }}{% elif message['role'] == 'user' %}{{ 'User: ' }}{% elif message['role'] == 'assistant' %}{{ 'Falcon: ' }}{% endif %}{{ message['content']|string|replace('\r\n', '\n')|replace('\n\n', '\n') }}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}]==],
["gpt-oss"] = [==[
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
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}]==],
["hermes-tools"] = [==[
{%- macro call(c) %}{"name": "{{ c.name }}", "arguments": {{ c.arguments|tojson }}}{% endmacro -%}
{{ bos_token }}{% for t in tools|default([], true) %}{{ t.function.name }}({% for n, p in t.function.parameters.properties.items() %}{{ n }}:{{ p.type if p.type is string else p.type|join('/') }}{{ '' if loop.last else ', ' }}{% endfor %}) {% endfor %}
{%- for m in messages %}[{{ loop.index }}/{{ loop.length }}{{ '!' if loop.revindex0 == 0 }}] {{ loop.cycle('odd', 'even') }}
{%- if m.tool_calls is defined %}{% for c in m.tool_calls %} <tool_call>{{ call(c.function) }}</tool_call>{% endfor %}{% else %} {{ m.content|string|trim|upper if m.role == 'system' else m.content }}{% endif %}
{% else %}no messages{% endfor %}]==],
["smollm3"] = [==[
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
{% endif %}{% endif %}]==],
["exaone"] = [==[
{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '[|system|][|endofturn|]\n' }}{% endif %}{{ '[|' + message['role'] + '|]' + message['content']|string }}{% if loop.last and message.role == 'user' %}{{ '' }}{% elif not loop.last or message['role'] == 'assistant' %}{{ '[|endofturn|]' }}{% endif %}{{ '\n' if not loop.last else '' }}{% endfor %}{% if add_generation_prompt %}{{ '\n[|assistant|]' }}{% endif %}]==],
["yi-break"] = [==[
{%- for m in messages -%}{%- if m.role == 'system' -%}{%- continue -%}{%- endif -%}{%- if loop.index > 3 -%}{{ '...' }}{%- break -%}{%- endif -%}{{ m.role[:1]|upper }}{{ m.role[1:] }}: {{ m.content if m.content is string else m.content|tojson }}
{% endfor -%}]==],
["jamba-set-block"] = [==[
{%- set head -%}  <{{ messages|length }}> {% endset -%}{{ head|trim }}{% filter upper %}abc {{ bos_token }}{% endfilter %}{% set x %}{% for m in messages %}{{ m.role|first }}{% endfor %}{% endset %}{{ x|reverse }}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{% raw %}{{ raw }}{% endraw %}
{%- macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}
{% call wrap('b') %}{{ messages[-1].content }}{% endcall %}
  {# a comment #}
  {% if true %}
    kept
  {% endif %}
	{%+ if true %}x{% endif +%}
end]==],
["expressions"] = [==[
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 / 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' in 'abc' }} {{ not 1 in [2] }} {{ 1 if false }}|{{ none }}|{{ true }}|{{ [] }}|{{ {} }}|{{ ('a', 1)|list }}|{{ 'abc'[::-1] }}|{{ 'abcdef'[1:-1:2] }}|{{ 'héé'|length }}|{{ 'héé'[1] }}|{{ [3,1,2]|sort }}|{{ [3,1,2]|sort(reverse=true)|first }}|{{ [1,2,3]|sum }}|{{ ['b','A','c']|sort|join }}|{{ {'b': 1, 'a': 2}|dictsort }}|{{ [1,1,2]|unique|list }}|{{ range(3)|list }}|{{ range(5, 0, -2)|list }}|{{ 'a b  c'.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'x'|default('y') }}|{{ undefined_name|default('y') }}|{{ ''|default('z', true) }}|{{ '5'|int + 1 }}|{{ '2.5'|float }}|{{ 3.7|int }}|{{ 2.5|round }}|{{ -3|abs }}|{{ 'title case'|title }}|{{ 'cAP'|capitalize }}|{{ 'aXbX'.replace('X', '-') }}|{{ 'aaa'|replace('a', 'b', 2) }}|{{ 'abc'.find('c') }}|{{ 'abc'.upper() }}|{{ 'a\nb'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}|{{ '<&>'|e }}|{{ [1,2,3,4]|select('even')|list }}|{{ [1,2,3]|reject('odd')|list }}|{{ ['a','b']|map('upper')|list }}|{{ [{'a':{'b':1}}]|map(attribute='a.b')|list }}|{{ 5 is divisibleby 5 }}|{{ 'a' is string }}|{{ 1 is number }}|{{ x is defined }}|{{ none is none }}|{{ [] is iterable }}|{{ {} is mapping }}|{{ 'A' is upper }}|{{ 3 is odd }}|{{ 1 is not string }}|{{ 'ab' * 2 }}|{{ [1] + [2] }}|{{ 1 ~ 'a' ~ none }}|{{ "q'uote" }}|{{ ["it's", 'a"b'] }}|{{ {'k': [1, {'n': none}]}|tojson(indent=2) }}|{{ [1.0, 1e20, 0.1, 1e-7, 123456789.25]|tojson }}|{{ 'é\u00e9\x41\t'|tojson }}|{{ [1,2,3]|last }}|{{ [[1,2],[3]]|map('length')|list }}|{{ 'a-b_c'.split('-')|last }}|{{ ' x '.strip() }}|{{ 'xxabxx'.strip('x') }}|{{ 'abc'.startswith(('x','a')) }}|{{ [1,2,3,4,5]|batch(2)|list }}|{{ dict(a=1).items()|list }}|{{ [3,1]|min }}|{{ [3,1]|max }}|{{ 'one two'|wordcount }}|{{ (1, 2) == (1, 2) }}|{{ 'abc'|list }}|{{ '%' }}|{{ [1, 2, 3][:2] }}|{{ 'x' ~ 1 ~ 2 }}|{{ (1,'a') }}|{{ (1,) }}|{{ {'a':1}.items()|list }}|{{ none|map('upper')|list }}|{{ (10)[1:] }}|{{ 1 in u }}|{{ 5|round }}|{{ 'aB c(d-e'|title }}|{{ 'aB c(d'.title() }}|{{ 'a,b'|wordcount }}|{{ true|abs }}|{{ 2.5 is odd }}|{{ 'abc'.index('c') }}|{{ (1,2) == [1,2] }}|{{ [1]|safe }}]==],
["recursive"] = [==[
{%- for item in [{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}]}, {'n': 4}] recursive %}{{ loop.depth }}:{{ item.n }}{% if item.c %}({{ loop(item.c) }}){% endif %}{% if loop.changed(item.n) %}!{% endif %}{{ loop.previtem.n if not loop.first }}{{ loop.nextitem.n if not loop.last }}{% endfor %}]==],
["syntax-error"] = [==[
line one
{% if x %}
no end]==],
["undefined-attribute"] = [==[
{{ nothing.at.all }}]==],
["unknown-filter-if-used"] = [==[
{{ 1|int }}{% if messages|length > 99 %}{{ raise_exception('never') }}{% endif %}]==],
}
