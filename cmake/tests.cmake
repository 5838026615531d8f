# tests.cmake - tests, programs that embed the library, and benchmarks: what is not installed.

# Tests: t/NAME.c is a program, t/NAME.lua a script for rille; each gets build/.../t/NAME.t, which prove runs.
# A test may ask for more memory than there is: sanitizers then give none, as the host does, and do not stop.
if(RILLE_SANITIZE)
  set(RILLE_TEST_ENV "ASAN_OPTIONS=allocator_may_return_null=1:$ASAN_OPTIONS TSAN_OPTIONS=allocator_may_return_null=1:$TSAN_OPTIONS ")
endif()
file(GLOB RILLE_TEST_C CONFIGURE_DEPENDS t/*.c)
foreach(source ${RILLE_TEST_C})
  get_filename_component(name ${source} NAME_WE)
  add_executable(t-${name} ${source})
  set_target_properties(t-${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/t/bin)
  target_link_libraries(t-${name} PRIVATE librille)
  file(WRITE ${CMAKE_BINARY_DIR}/t/${name}.t
    "#!/bin/sh\ncd ${CMAKE_SOURCE_DIR} && ${RILLE_TEST_ENV}exec ${CMAKE_BINARY_DIR}/t/bin/${name} \"$@\"\n")
endforeach()
target_sources(t-jupyter-wire PRIVATE shell/jupyter_wire.c)
target_link_libraries(t-jupyter-wire PRIVATE PkgConfig::SODIUM)
target_sources(t-launch-hosts PRIVATE shell/hosts.c)
target_sources(t-fuzz PRIVATE shell/hosts.c)
if(RILLE_SANITIZE MATCHES fuzzer) # t/fuzz/run.sh: libFuzzer drives what that test tries
  add_executable(fuzz t/fuzz.c shell/hosts.c)
  target_compile_definitions(fuzz PRIVATE RILLE_FUZZ=1)
  target_link_libraries(fuzz PRIVATE librille -fsanitize=fuzzer)
  file(GLOB loops kernels/cpu/*.c) # nothing here runs them, and they take minutes to compile
  set_source_files_properties(${loops} PROPERTIES COMPILE_OPTIONS "-O1;-fno-sanitize=all")
endif()
file(GLOB RILLE_TEST_LUA CONFIGURE_DEPENDS t/*.lua)
list(FILTER RILLE_TEST_LUA EXCLUDE REGEX "/tap\\.lua$")
foreach(source ${RILLE_TEST_LUA})
  get_filename_component(name ${source} NAME_WE)
  file(WRITE ${CMAKE_BINARY_DIR}/t/${name}.t
    "#!/bin/sh\ncd ${CMAKE_SOURCE_DIR} && ${RILLE_TEST_ENV}exec ${CMAKE_BINARY_DIR}/rille -d cpu:8 t/${name}.lua \"$@\"\n")
endforeach()
file(GLOB RILLE_TEST_SH CONFIGURE_DEPENDS t/*.sh)
list(FILTER RILLE_TEST_SH EXCLUDE REGEX "/tap\\.sh$")
if(RILLE_SANITIZE) # of sources, tables, what compilers and linkers do with them, and oneDNN's code: no sanitizer says more
  list(FILTER RILLE_TEST_SH EXCLUDE REGEX "/(editors|format|install|kernels-isa|layering|op-table)\\.sh$")
endif()
foreach(source ${RILLE_TEST_SH})
  get_filename_component(name ${source} NAME_WE)
  file(WRITE ${CMAKE_BINARY_DIR}/t/${name}.t
    "#!/bin/sh\ncd ${CMAKE_SOURCE_DIR} && ${RILLE_TEST_ENV}exec bash t/${name}.sh ${CMAKE_BINARY_DIR}/rille \"$@\"\n")
endforeach()

# Programs that embed the library, and benchmarks in C: with sanitizers these would measure the sanitizers.
file(GLOB RILLE_EXAMPLE_C CONFIGURE_DEPENDS examples/*.c bench/*.c)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(RILLE_SANITIZE)
  list(FILTER RILLE_EXAMPLE_C EXCLUDE REGEX "/bench/[^/]*$")
elseif(NOT JANSSON_FOUND)
  list(FILTER RILLE_EXAMPLE_C EXCLUDE REGEX "/iopddl\\.c$") # reads JSON
endif()
foreach(source ${RILLE_EXAMPLE_C})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(dir ${source} DIRECTORY)
  get_filename_component(dir ${dir} NAME)
  add_executable(${dir}-${name} ${source})
  set_target_properties(${dir}-${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${dir})
  target_link_libraries(${dir}-${name} PRIVATE librille)
endforeach()
if(TARGET bench-iopddl)
  target_link_libraries(bench-iopddl PRIVATE PkgConfig::JANSSON)
endif()
