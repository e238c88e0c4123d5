# Compiler flags, sanitizers, compiler cache and linker: everything that holds for each file of ours.
# Invariant: no flag lets a result depend on the machine (no -march=native, no contraction to fused multiply-add).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Dev CACHE STRING "Dev, Release or Sanitize" FORCE)
endif()
# Dev is what ./dev build makes: asserts on, fast code, line numbers in stack traces.
set(CMAKE_CXX_FLAGS_DEV "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g -fno-omit-frame-pointer")

add_compile_options(-ffp-contract=off)
# Messages and debug information name files below the source folder, whatever the machine; ccache makes them relative.
file(RELATIVE_PATH to_source "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
string(REGEX REPLACE "/$" "" to_source "${to_source}")
add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${to_source}/=")
if(CMAKE_COLOR_DIAGNOSTICS OR CMAKE_GENERATOR STREQUAL "Ninja")
  add_compile_options(-fdiagnostics-color=auto)
endif()

if(HTPIPE_SANITIZE STREQUAL "address")
  # Sanitizers report the first fault and stop, so that a test run cannot pass over it.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(HTPIPE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(HTPIPE_SANITIZE STREQUAL "fuzzer")
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(HTPIPE_SANITIZE)
  message(FATAL_ERROR "HTPIPE_SANITIZE is '${HTPIPE_SANITIZE}'; it can be empty, address, thread or fuzzer")
endif()

find_program(HTPIPE_CCACHE ccache)
if(HTPIPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness words are what ccache needs to cache files that use a precompiled header; base folder and no hashed
  # folder let another clone hit the same entries.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
      "CCACHE_NOHASHDIR=1;${HTPIPE_CCACHE}")
endif()

find_program(HTPIPE_MOLD mold)
if(HTPIPE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

set(HTPIPE_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # clang counts signed/unsigned changes as -Wconversion, GCC does not; one rule for both.
  list(APPEND HTPIPE_WARNINGS -Wno-sign-conversion)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about std::string's operator+ without reason (GCC bug 105651).
  list(APPEND HTPIPE_WARNINGS -Wno-restrict)
endif()
if(HTPIPE_WERROR)
  list(APPEND HTPIPE_WARNINGS -Werror)
endif()
