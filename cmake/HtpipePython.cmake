# The Python package: build/python/htpipe, ready to be put on PYTHONPATH, and what `pip wheel` installs.
# It is left out, with a message, where nanobind is not installed (requirements/build.txt); the target python_package
# is then empty.
add_custom_target(python_package)
option(HTPIPE_PYTHON "Build the Python package htpipe" ON)
if(NOT HTPIPE_PYTHON)
  return()
endif()
if(HTPIPE_SANITIZE)
  message(STATUS "The Python package is left out: Python itself is not built with sanitizers")
  return()
endif()

if(NOT Python_EXECUTABLE AND EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${CMAKE_SOURCE_DIR}/.venv/bin/python")
endif()
find_package(Python 3.11 COMPONENTS Interpreter Development.Module)
set(nanobind_found 1)
if(Python_FOUND)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT ERROR_QUIET RESULT_VARIABLE nanobind_found)
endif()
if(NOT nanobind_found EQUAL 0)
  if(DEFINED SKBUILD)
    message(FATAL_ERROR "A wheel needs nanobind and the headers of Python (requirements/build.txt, debian.txt)")
  endif()
  message(STATUS "The Python package is left out: it needs nanobind and the headers of Python (./dev setup)")
  return()
endif()
find_package(nanobind CONFIG REQUIRED)

# NOMINSIZE, NOSTRIP: built like the rest of the program.
nanobind_add_module(htpipe_python NB_STATIC NOMINSIZE NOSTRIP NB_SUPPRESS_WARNINGS python/core.cc)
set(package "${CMAKE_BINARY_DIR}/python/htpipe")
set_target_properties(htpipe_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY "${package}")
target_link_libraries(htpipe_python PRIVATE htpipe_check htpipe_import htpipe_passes htpipe_exec htpipe_target)
target_compile_options(htpipe_python PRIVATE ${HTPIPE_WARNINGS} $<$<CONFIG:Dev>:-O1>)
# Other extensions of the same process have libraries of the same names.
target_link_options(htpipe_python PRIVATE -Wl,--exclude-libs,ALL)
add_dependencies(python_package htpipe_python)

# The build tree's package has the layout of the installed one, by links: a changed Python file needs no build.
file(GLOB python_files CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}/python/htpipe" python/htpipe/*.py
     python/htpipe/*.pyi python/htpipe/py.typed)
file(MAKE_DIRECTORY "${package}/data")
foreach(file IN LISTS python_files)
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/python/htpipe/${file}" "${package}/${file}" SYMBOLIC)
endforeach()
file(CREATE_LINK "${CMAKE_SOURCE_DIR}/targets" "${package}/data/targets" SYMBOLIC)

install(TARGETS htpipe_python LIBRARY DESTINATION htpipe COMPONENT python)
install(DIRECTORY targets DESTINATION htpipe/data COMPONENT python FILES_MATCHING PATTERN "*.yaml")
