# text.cmake - writes files as an array of C: cmake -DFILES=device.cuh -DNAME=cuda_device_text -DOUT=file.c -P this.
# Bytes are numbers: a string literal of C99 has an end that files do not know.
foreach(file ${FILES})
  file(READ ${file} own HEX)
  string(APPEND bytes ${own})
endforeach()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "/* Made by text.cmake. */\nextern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")
