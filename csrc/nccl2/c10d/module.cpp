// pycomms._C: what Python sees of the native code. Must not contain: logic.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/gpu_memory.h"
#include "nccl2/c10d/host_engine.h"
#include "nccl2/c10d/python_errors.h"
#include "nccl2/c10d/python_hooks.h"
#include "nccl2/c10d/recorder_binding.h"
#include "nccl2/c10d/regroup_probe.h"
#include "nccl2/c10d/window_binding.h"
#include "nccl2/c10d/window_fast_calls.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

template <typename T, typename... Bases>
using Class = py::class_<T, Bases..., c10::intrusive_ptr<T>>;

// torch's own translation keeps the text and loses the class.
void translate(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const CommError& e) {
    raise_in_python(e.detail());
  } catch (const c10::ValueError& e) {
    PyErr_SetString(PyExc_ValueError, e.what_without_backtrace());
  } catch (const c10::TypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what_without_backtrace());
  }
}

c10::intrusive_ptr<Backend> create(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                                   const c10::intrusive_ptr<GroupOptions>& options, const std::string& engine_path,
                                   const std::string& vector_width) {
  const HostEngine host = host_engine(engine_path, vector_width);
  return c10::make_intrusive<Backend>(store, rank, size, options, host.engine, host.runtime);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  py::module_::import("torch._C._distributed_c10d");  // registers the base classes
  py::register_exception_translator(&translate);

  py::enum_<Connect>(m, "Connect", "When a group connects its ranks.")
      .value("BACKGROUND", Connect::kBackground)
      .value("EAGER", Connect::kEager)
      .value("LAZY", Connect::kLazy);

  py::enum_<NanCheck>(m, "NanCheck", "What a group looks for in the data of its operations.")
      .value("OFF", NanCheck::kOff)
      .value("NAN", NanCheck::kNan)
      .value("NAN_AND_INF", NanCheck::kNanAndInf);

  Class<GroupOptions, ::c10d::Backend::Options>(m, "Options", "Options of a group; see pycomms.Options.")
      .def(py::init([](std::chrono::milliseconds timeout, Connect connect, bool is_high_priority_stream,
                       bool blocking_wait, int ranks_per_root, std::optional<NanCheck> nan_check,
                       bool register_segments) {
             auto options = c10::make_intrusive<GroupOptions>(timeout);
             options->connect = connect;
             options->is_high_priority_stream = is_high_priority_stream;
             options->blocking_wait = blocking_wait;
             options->ranks_per_root = ranks_per_root;
             options->nan_check = nan_check;
             options->register_segments = register_segments;
             return options;
           }),
           py::kw_only(), py::arg("timeout") = kBackendDefaultTimeout, py::arg("connect") = Connect::kBackground,
           py::arg("is_high_priority_stream") = false, py::arg("blocking_wait") = false, py::arg("ranks_per_root") = -1,
           py::arg("nan_check") = std::nullopt, py::arg("register_segments") = false)
      .def_readwrite("connect", &GroupOptions::connect)
      .def_readwrite("is_high_priority_stream", &GroupOptions::is_high_priority_stream)
      .def_readwrite("blocking_wait", &GroupOptions::blocking_wait)
      .def_readwrite("ranks_per_root", &GroupOptions::ranks_per_root)
      .def_readwrite("nan_check", &GroupOptions::nan_check)
      .def_readwrite("register_segments", &GroupOptions::register_segments);

  Class<Backend, ::c10d::Backend>(m, "Backend", "The nccl2 backend of pycomms.")
#if !PYCOMMS_TORCH_AT_LEAST(2, 14)
      .def_property_readonly("options", &Backend::getBackendOptions)  // which torch has of every backend since
#endif
      .def(
          "split",
          [](Backend& self, const c10::intrusive_ptr<::c10d::Store>& store, const std::vector<int>& ranks,
             const c10::intrusive_ptr<GroupOptions>& options) { return self.split(store, ranks, options); },
          py::arg("store"), py::arg("ranks"), py::arg("options"), py::call_guard<py::gil_scoped_release>())
      .def(
          "perform_nocolor_split",
          [](Backend& self, const std::optional<at::Device>&) { self.perform_nocolor_split(); },
          py::arg("device") = std::nullopt, py::call_guard<py::gil_scoped_release>())
      .def(
          "register_mem_pool",
          [](Backend& self, py::handle pool, bool symm) {
            const PoolId id = pool_id("register_mem_pool", pool);
            const py::gil_scoped_release gil;
            self.register_mem_pool(id, symm);
          },
          py::arg("pool"), py::arg("symm") = false)
      .def(
          "deregister_mem_pool",
          [](Backend& self, py::handle pool) {
            const PoolId id = pool_id("deregister_mem_pool", pool);
            const py::gil_scoped_release gil;
            self.deregister_mem_pool(id);
          },
          py::arg("pool"))
      .def_property_readonly("mem_allocator", [](const Backend&) { return nccl_allocator(); })
      .def(
          "shrink",
          [](Backend& self, const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
             const c10::intrusive_ptr<::c10d::Backend::Options>& opts_override) {
            return c10::static_intrusive_pointer_cast<Backend>(
                self.shrink(ranks_to_exclude, shrink_flags, opts_override));
          },
          py::arg("ranks_to_exclude"), py::arg("shrink_flags") = 0, py::arg("opts_override") = nullptr,
          py::call_guard<py::gil_scoped_release>())
      .def("regroup_handle", &Backend::regroup_handle, py::call_guard<py::gil_scoped_release>())
      .def(
          "regroup",
          [](Backend& self, int64_t uuid, const py::object& handles,
             const std::optional<std::chrono::milliseconds>& timeout,
             const py::bytes& note) -> c10::intrusive_ptr<::c10d::Work> {
            const Backend::RegroupArgs args{.uuid = uuid,
                                            .handles = handles.cast<std::vector<std::string>>(),
                                            .by_position = py::isinstance<py::list>(handles),
                                            .timeout = timeout.value_or(kNoTimeout),
                                            .note = note};
            const py::gil_scoped_release gil;
            return self.regroup(args);
          },
          py::kw_only(), py::arg("uuid"), py::arg("handles"), py::arg("timeout") = std::nullopt,
          py::arg("note") = py::bytes())
      .def_property_readonly("regroup_notes",
                             [](const Backend& self) {
                               py::list notes;
                               for (const std::string& note : self.regroup_notes()) notes.append(py::bytes(note));
                               return notes;
                             })
      .def_property_readonly("generation", &Backend::generation)
      .def("suspend", &Backend::suspend, py::call_guard<py::gil_scoped_release>())
      .def("resume", &Backend::resume, py::call_guard<py::gil_scoped_release>())
      .def("memory_stats", &Backend::getMemoryStats, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("comm_ptr", &Backend::comm_ptr)
      .def("_comm_ptr", &Backend::comm_ptr)
      .def("_start_time_estimate", &Backend::start_time_estimate, py::call_guard<py::gil_scoped_release>())
      .def("_end_time_estimate", &Backend::end_time_estimate, py::call_guard<py::gil_scoped_release>());

  bind_windows(m);
  bind_recorder(m);
  bind_fast_calls(m.attr("Window"), &translate);

  m.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
        py::arg("engine_path"), py::arg("vector_width") = "", py::call_guard<py::gil_scoped_release>());
  m.def(
      "set_regroup_probe",
      [](const py::object& probe) {
        RegroupProbe::Function function;
        if (!probe.is_none()) {
          function = [kept = keep_python_object(py::object(probe).release().ptr())](const char* point) {
            const py::gil_scoped_acquire gil;
            py::reinterpret_borrow<py::object>(static_cast<PyObject*>(kept.get()))(point);
          };
        }
        RegroupProbe::of_process().set(std::move(function));
      },
      py::arg("probe"), "For tests: called with the name of each point that a regroup of this process reaches.");
  m.def("leave_all_groups", &leave_all_groups, "Ends what groups are left, because the process ends.",
        py::call_guard<py::gil_scoped_release>());
  m.def(
      "engine_version", [](const std::string& path) { return host_engine(path, "").engine.version; }, py::arg("path"));
  m.attr("torch_version") = TORCH_VERSION;
  m.attr("can_regroup") = kCanRegroup;
  m.attr("nccl_abi_version") = nccl_abi::kConfigVersion;
  m.def(
      "loaded_nccl_version",
      []() -> std::optional<int> {
        Result<const Engine*> engine = loaded_nccl();
        return engine.is_ok() ? std::optional(engine.value()->version) : std::nullopt;
      },
      "The version of the libnccl that torch has loaded; None when there is none that we can use.");
}

}  // namespace pycomms::c10d_backend
