# The libraries from the distribution (requirements/debian.txt), each under one target name.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(tl-expected REQUIRED)

# yaml-cpp renamed its target in 0.8.
add_library(htpipe_yaml INTERFACE)
if(TARGET yaml-cpp::yaml-cpp)
  target_link_libraries(htpipe_yaml INTERFACE yaml-cpp::yaml-cpp)
else()
  target_link_libraries(htpipe_yaml INTERFACE yaml-cpp)
endif()

if(HTPIPE_TESTS)
  find_package(GTest REQUIRED)
  # Debian's CMake package of libzip names command-line programs that its -dev package does not bring.
  find_path(HTPIPE_LIBZIP_INCLUDE zip.h REQUIRED)
  find_library(HTPIPE_LIBZIP zip REQUIRED)
  add_library(htpipe_libzip INTERFACE)
  target_include_directories(htpipe_libzip SYSTEM INTERFACE "${HTPIPE_LIBZIP_INCLUDE}")
  target_link_libraries(htpipe_libzip INTERFACE "${HTPIPE_LIBZIP}")
endif()
