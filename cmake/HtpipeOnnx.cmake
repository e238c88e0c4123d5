# The messages of ONNX files: C++ made by protoc from the .proto file of the onnx wheel (requirements/build.txt).
find_package(Protobuf REQUIRED)
set(HTPIPE_ONNX_PROTO_DIR "" CACHE PATH "Folder of onnx-ml.proto; empty: that of the onnx package in .venv")
if(HTPIPE_ONNX_PROTO_DIR)
  set(onnx_proto "${HTPIPE_ONNX_PROTO_DIR}/onnx-ml.proto")
elseif(DEFINED SKBUILD)
  # A wheel is built in an environment of its own.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE onnx_folder)
  set(onnx_proto "${onnx_folder}/onnx-ml.proto")
else()
  file(GLOB onnx_proto "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/onnx/onnx-ml.proto")
endif()
if(NOT onnx_proto OR NOT EXISTS "${onnx_proto}")
  message(FATAL_ERROR "onnx-ml.proto was not found: run ./dev setup, or set HTPIPE_ONNX_PROTO_DIR")
endif()
set(onnx_out "${CMAKE_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${onnx_out}")
configure_file("${onnx_proto}" "${onnx_out}/onnx-ml.proto" COPYONLY)
add_custom_command(
  OUTPUT "${onnx_out}/onnx-ml.pb.cc" "${onnx_out}/onnx-ml.pb.h"
  COMMAND protobuf::protoc --cpp_out "${onnx_out}" --proto_path "${onnx_out}" "${onnx_out}/onnx-ml.proto"
  DEPENDS "${onnx_out}/onnx-ml.proto"
  VERBATIM)
add_library(htpipe_onnx_proto STATIC "${onnx_out}/onnx-ml.pb.cc")
target_include_directories(htpipe_onnx_proto SYSTEM PUBLIC "${onnx_out}")
target_link_libraries(htpipe_onnx_proto PUBLIC protobuf::libprotobuf)
target_compile_options(htpipe_onnx_proto PRIVATE -w)
