# headers.cmake -- the installed headers, flat copies of them, and the files of the
# arrays library.

# QG_ARRAYS: what is in libqg_arrays besides engine/number, below engine/.
set(QG_ARRAYS core/arena.c core/budget.c core/clock.c core/ctx.c core/names.c core/num.c
    core/status.c
    ir/tensor.c ir/transpose.c quant/aimet.c quant/apply.c quant/code.c quant/dynamic.c
    quant/fake.c quant/fake_avx2.c quant/fake_avx512.c quant/fake_define.c
    quant/fake_kernel.c quant/fake_plain.c quant/fake_tensor.c quant/floating.c
    quant/gradient.c quant/metric.c quant/nncf.c quant/nncf_ptq.c quant/policy.c
    quant/qparam.c quant/spans.c)

# Headers that other programs may include, below engine/.  tests/scripts/test_symbols.py
# compares their declarations with what the libraries export.
set(QG_ARRAYS_HEADERS api/qg_arrays.h core/alloc.h core/status.h ir/tensor.h
    number/dtype.h number/fixed.h number/format.h number/integer_array.h
    number/integer_binary.h number/integer_exp.h number/integer_pool.h
    number/integer_rescale.h number/integer_sum.h number/integer_unary.h
    number/openvino_fq.h number/profile.h number/qdq.h number/requant.h number/round.h quant/aimet.h
    quant/apply.h quant/fake.h quant/gradient.h quant/metric.h quant/nncf.h
    quant/policy.h)
set(QG_HEADERS api/qg.h api/qg_device.h api/qg_extend.h api/qg_memory.h api/qg_records.h
    api/qg_report.h api/qg_session.h api/qg_workload.h core/progress.h quant/state.h)

# qg_flat_headers(<out> <header>...): copies in one folder, which include each other by
# name; `out` gets their paths.
set(QG_FLAT_HEADERS ${CMAKE_BINARY_DIR}/include)
function(qg_flat_headers out)
  foreach(header IN LISTS ARGN)
    get_filename_component(name ${header} NAME)
    set(from ${CMAKE_SOURCE_DIR}/engine/${header})
    set(to ${QG_FLAT_HEADERS}/quantgraph/${name})
    add_custom_command(
      OUTPUT ${to}
      COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${to}
              -P ${CMAKE_SOURCE_DIR}/tools/flat_header.cmake
      DEPENDS ${from} ${CMAKE_SOURCE_DIR}/tools/flat_header.cmake VERBATIM)
    list(APPEND made ${to})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()
qg_flat_headers(QG_FLAT_ARRAYS ${QG_ARRAYS_HEADERS})
qg_flat_headers(QG_FLAT_LIBRARY ${QG_HEADERS})
add_custom_target(qg_headers ALL DEPENDS ${QG_FLAT_ARRAYS} ${QG_FLAT_LIBRARY})
