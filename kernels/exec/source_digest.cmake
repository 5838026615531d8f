# source_digest.cmake - writes a digest of the sources that determine the bits of results, as a text in C:
# cmake -DROOT=folder -DOUT=file.c -P source_digest.cmake
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/runtime/*.[ch] ${ROOT}/sbp/*.[ch] ${ROOT}/boxing/*.[ch]
  ${ROOT}/kernels/*.[ch] ${ROOT}/kernels/*.inc ${ROOT}/kernels/*.def ${ROOT}/actors/plan/*.[ch] ${ROOT}/actors/act/*.[ch])
list(SORT files)
foreach(file ${files})
  file(SHA256 ${ROOT}/${file} digest)
  string(APPEND all "${file} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUT} "/* Made by source_digest.cmake. */\nextern const char kernels_source_digest[];\n"
  "const char kernels_source_digest[] = \"${digest}\";\n")
