# tests.cmake - tests, programs that embed the library, and benchmarks: what is not installed.

# Tests: t/FOLDER/NAME.c is a program, NAME.lua a script for rille, NAME.sh a script that gets the program's path. Each
# gets build/.../t/FOLDER/NAME.t, which prove runs. t/lib, t/host, t/oracles and t/golden hold what tests share.
# A test may ask for more memory than there is: sanitizers then give none, as the host does, and do not stop.
if(RILLE_SANITIZE)
  set(RILLE_TEST_ENV "ASAN_OPTIONS=allocator_may_return_null=1:$ASAN_OPTIONS TSAN_OPTIONS=allocator_may_return_null=1:$TSAN_OPTIONS ")
endif()
set(RILLE_NO_TESTS "/t/(lib|host|oracles|golden)/")
file(GLOB RILLE_ORACLES CONFIGURE_DEPENDS t/oracles/*.c)
add_library(oracles STATIC ${RILLE_ORACLES})
target_link_libraries(oracles PUBLIC librille)
# Sets name and folder of a test: the folder below t/, the name without its suffix. Two tests must not share both, because
# the second would replace the first.
macro(rille_test_name source)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  if("${folder}/${name}" IN_LIST RILLE_TEST_NAMES)
    message(FATAL_ERROR "two tests are called t/${folder}/${name}: rename one")
  endif()
  list(APPEND RILLE_TEST_NAMES ${folder}/${name})
endmacro()
file(GLOB RILLE_TEST_C CONFIGURE_DEPENDS t/*/*.c)
list(FILTER RILLE_TEST_C EXCLUDE REGEX ${RILLE_NO_TESTS})
foreach(source ${RILLE_TEST_C})
  rille_test_name(${source})
  add_executable(t-${folder}-${name} ${source})
  set_target_properties(t-${folder}-${name} PROPERTIES OUTPUT_NAME ${folder}-${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/t/bin)
  target_link_libraries(t-${folder}-${name} PRIVATE oracles)
  file(WRITE ${CMAKE_BINARY_DIR}/t/${folder}/${name}.t
    "#!/bin/sh\ncd ${CMAKE_SOURCE_DIR} && ${RILLE_TEST_ENV}exec ${CMAKE_BINARY_DIR}/t/bin/${folder}-${name} \"$@\"\n")
endforeach()
target_sources(t-shell-jupyter-wire PRIVATE shell/jupyter/jupyter_wire.c)
target_link_libraries(t-shell-jupyter-wire PRIVATE PkgConfig::SODIUM)
target_sources(t-launch-hosts PRIVATE shell/launch/hosts.c)
target_sources(t-fuzz-fuzz PRIVATE shell/launch/hosts.c)
if(RILLE_SANITIZE MATCHES fuzzer) # t/fuzz/run.sh: libFuzzer drives what that test tries
  add_executable(fuzz t/fuzz/fuzz.c shell/launch/hosts.c)
  target_compile_definitions(fuzz PRIVATE RILLE_FUZZ=1)
  target_link_libraries(fuzz PRIVATE oracles -fsanitize=fuzzer)
  file(GLOB_RECURSE loops kernels/cpu/*.c) # nothing here runs them, and they take minutes to compile
  set_source_files_properties(${loops} PROPERTIES COMPILE_OPTIONS "-O1;-fno-sanitize=all")
endif()
file(GLOB RILLE_TEST_LUA CONFIGURE_DEPENDS t/*/*.lua)
list(FILTER RILLE_TEST_LUA EXCLUDE REGEX ${RILLE_NO_TESTS})
foreach(source ${RILLE_TEST_LUA})
  rille_test_name(${source})
  file(WRITE ${CMAKE_BINARY_DIR}/t/${folder}/${name}.t
    "#!/bin/sh\ncd ${CMAKE_SOURCE_DIR} && ${RILLE_TEST_ENV}exec ${CMAKE_BINARY_DIR}/rille -d cpu:8 t/${folder}/${name}.lua \"$@\"\n")
endforeach()
file(GLOB RILLE_TEST_SH CONFIGURE_DEPENDS t/*/*.sh)
list(FILTER RILLE_TEST_SH EXCLUDE REGEX "/t/(lib|host|oracles|golden|gpu)/|/t/fuzz/run\\.sh$")
if(RILLE_SANITIZE) # of sources, tables, what compilers and linkers do with them, and oneDNN's code: no sanitizer says more
  list(FILTER RILLE_TEST_SH EXCLUDE REGEX "/(shell/editors|project/format|project/install|kernels/isa|project/layering|op/table)\\.sh$")
endif()
foreach(source ${RILLE_TEST_SH})
  rille_test_name(${source})
  file(WRITE ${CMAKE_BINARY_DIR}/t/${folder}/${name}.t
    "#!/bin/sh\ncd ${CMAKE_SOURCE_DIR} && ${RILLE_TEST_ENV}exec bash t/${folder}/${name}.sh ${CMAKE_BINARY_DIR}/rille \"$@\"\n")
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
