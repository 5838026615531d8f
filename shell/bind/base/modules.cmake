# modules.cmake - writes the files of lua/ as a table of C: cmake -DROOT=lua -DOUT=file.c -DFILES=a.lua;b.lua -P this.
# The bytes are written as numbers, because C compilers need not accept long string literals.
set(arrays "")
set(rows "")
set(n 0)
foreach(file ${FILES})
  file(RELATIVE_PATH name ${ROOT} ${file})
  string(REGEX REPLACE "\\.lua$" "" name ${name})
  string(REPLACE "/" "." name ${name})
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" size)
  math(EXPR size "${size} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char text_${n}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", (const char *)text_${n}, ${size}},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by modules.cmake. */\n#include \"shell/bind/base/modules.h\"\n\n${arrays}\n"
  "const struct module_text module_texts[] = {\n${rows}    {NULL, NULL, 0},\n};\n")
