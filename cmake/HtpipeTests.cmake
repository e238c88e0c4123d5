# htpipe_tests: all unit and golden tests in one binary, run by ctest in shards.
file(GLOB test_sources CONFIGURE_DEPENDS src/*/*_test.cc src/*/*/*_test.cc tests/*.cc)
if(NOT test_sources)
  return()
endif()

add_executable(htpipe_tests ${test_sources})
target_link_libraries(
  htpipe_tests PRIVATE htpipe_pipeline htpipe_import htpipe_quant htpipe_qnn htpipe_accuracy htpipe_report htpipe_libzip
                       GTest::gtest GTest::gmock GTest::gtest_main)
target_compile_definitions(htpipe_tests PRIVATE HTPIPE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                HTPIPE_BINARY_DIR="${CMAKE_BINARY_DIR}")
# Tests run briefly and are compiled often.
target_compile_options(htpipe_tests PRIVATE ${HTPIPE_WARNINGS} -O0)
target_precompile_headers(htpipe_tests PRIVATE <gmock/gmock.h> <gtest/gtest.h> <string> <vector>)
foreach(program htpipe htpipe-vendor-worker)
  if(TARGET ${program})
    # Tests run the programs.
    add_dependencies(htpipe_tests ${program})
  endif()
endforeach()

# Whole networks on the emulator: tests/network_fidelity_test.py and ./dev fidelity run it.
add_executable(network_fidelity EXCLUDE_FROM_ALL tests/fidelity/network_fidelity.cc)
target_link_libraries(network_fidelity PRIVATE htpipe_pipeline)
target_compile_options(network_fidelity PRIVATE ${HTPIPE_WARNINGS})
add_dependencies(network_fidelity htpipe-vendor-worker)

set(HTPIPE_TEST_SHARDS 4 CACHE STRING "Number of ctest entries that htpipe_tests is split into")
math(EXPR last_shard "${HTPIPE_TEST_SHARDS} - 1")
foreach(shard RANGE ${last_shard})
  set(name "htpipe_tests.${shard}")
  add_test(NAME ${name} COMMAND htpipe_tests "--gtest_output=json:${CMAKE_BINARY_DIR}/test-results/${name}.json"
           WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
                                          "GTEST_TOTAL_SHARDS=${HTPIPE_TEST_SHARDS};GTEST_SHARD_INDEX=${shard};GTEST_BRIEF=1")
endforeach()
