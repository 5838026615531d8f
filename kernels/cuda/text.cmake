# text.cmake - writes the bytes of files as an array in C: cmake -DFILES=device.cuh -DNAME=cuda_device_text -DOUT=file.c -P
# text.cmake. The array consists of numbers, because C99 only guarantees string literals of 4095 characters, which files exceed.
foreach(file ${FILES})
  file(READ ${file} own HEX)
  string(APPEND bytes ${own})
endforeach()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "/* Made by text.cmake. */\nextern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")
