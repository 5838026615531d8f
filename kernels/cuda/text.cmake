# text.cmake - writes a file as an array of C: cmake -DFILE=device.cuh -DNAME=cuda_device_text -DOUT=file.c -P this.
# Bytes are numbers: a string literal of C99 has an end that files do not know.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "/* Made by text.cmake. */\nextern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")
