// pycomms._C.recorder_*: one ring for the process. Must not contain: policy, such as where the file lies.
#include "nccl2/c10d/recorder_binding.h"

#include <unistd.h>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/python_hooks.h"
#include "nccl2/c10d/recorded_group.h"
#include "nccl2/c10d/recording.h"
#include "nccl2/python/call_site.h"
#include "recorder/dump.h"
#include "recorder/dumper.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

void throw_os_error_unless(const Status& status) {
  if (status.is_ok()) return;
  if (status.code() == Code::kInvalidArgument) throw py::value_error(status.message());
  PyErr_SetString(PyExc_OSError, status.message().c_str());
  throw py::error_already_set();
}

recorder::Ring& need_ring() {
  recorder::Ring* ring = recorder::process_ring();
  if (ring == nullptr) throw std::runtime_error("this process has no flight recorder");
  return *ring;
}

// after(path), with the GIL; an exception of it is told and dropped. None: nothing.
std::function<void(const std::string&)> with_gil(py::object after) {
  if (after.is_none()) return nullptr;
  return [kept = keep_python_object(after.release().ptr())](const std::string& path) {
    if (!interpreter_is_up()) return;
    const py::gil_scoped_acquire gil;
    try {
      py::reinterpret_borrow<py::object>(static_cast<PyObject*>(kept.get()))(path);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("what runs after a dump");
    }
  };
}

#ifdef C10D_BACKEND_HAS_HOOKS
// Devices of the group whose operations have entries of their own: those of our backend.
std::set<c10::DeviceType> recorded_devices(::c10d::ProcessGroup& group) {
  std::set<c10::DeviceType> devices;
  for (const at::Device device : group.getDeviceTypes()) {
    const auto backend = group.getBackend(device.type());
    if (dynamic_cast<Backend*>(backend.get()) != nullptr) devices.insert(device.type());
  }
  return devices;
}
#endif

}  // namespace

void bind_recorder(py::module_& m) {
  m.attr("recorder_has_hooks") = kHasHooks;
  m.def(
      "recorder_open",
      [](const std::string& path, uint32_t entries, int rank, int world_size, int attempt, const std::string& job,
         const std::string& library, std::vector<std::string> internal_folders, bool stacks) {
        auto ring = recorder::Ring::create({.path = path,
                                            .entries = entries,
                                            .rank = rank,
                                            .world_size = world_size,
                                            .attempt = attempt,
                                            .job = job,
                                            .library = library,
                                            .kinds = recorded_kinds(),
                                            .dtypes = recorded_dtypes(),
                                            .reductions = recorded_reductions()});
        throw_os_error_unless(ring.status());
        python::set_internal_folders(std::move(internal_folders));
        record_stacks(stacks);
        recorder::set_process_ring(ring.take());
      },
      py::kw_only(), py::arg("path"), py::arg("entries"), py::arg("rank"), py::arg("world_size"), py::arg("attempt"),
      py::arg("job"), py::arg("library"), py::arg("internal_folders"), py::arg("stacks"));
  m.def("recorder_path", []() -> std::optional<std::string> {
    const recorder::Ring* ring = recorder::process_ring();
    return ring != nullptr ? std::optional(ring->path()) : std::nullopt;
  });
  m.def(
      "recorder_set_up_dumps",
      [](const std::string& folder, int most, py::object after) {
        recorder::Dumper::instance().set_up(folder, most, with_gil(std::move(after)));
      },
      py::arg("folder"), py::arg("most"), py::arg("after"));
  m.def(
      "recorder_dump",
      [](const std::string& folder, const std::string& reason) {
        recorder::Ring& ring = need_ring();
        std::string path;
        Status written;
        {
          const py::gil_scoped_release gil;
          written = recorder::dump(ring, folder, reason, &path);
        }
        throw_os_error_unless(written);
        return path;
      },
      py::arg("folder"), py::arg("reason"));
  m.def(
      "recorder_wait_for_dumps",
      [](double seconds) {
        return recorder::Dumper::instance().wait_until_idle(Deadline::after(static_cast<int64_t>(seconds * kSecond)));
      },
      py::arg("seconds"), py::call_guard<py::gil_scoped_release>());
  m.def(
      "recorder_note_signal", [](int signal) { throw_os_error_unless(recorder::note_signal(signal)); },
      py::arg("signal"));
  m.def(
      "recorder_dump_on_signal", [](int signal) { throw_os_error_unless(recorder::dump_on_signal(signal)); },
      py::arg("signal"));
  m.def(
      "recorder_close",
      [](double seconds) {
        recorder::Ring* ring = recorder::process_ring();
        if (ring == nullptr) return;
        recorder::Dumper::instance().stop(Deadline::after(static_cast<int64_t>(seconds * kSecond)));
        ring->close();
        if (!ring->has_trouble()) unlink(ring->path().c_str());
      },
      py::arg("seconds"), "The process ends: waits for dumps so long, and removes a ring that nothing happened in.",
      py::call_guard<py::gil_scoped_release>());
#ifdef C10D_BACKEND_HAS_HOOKS
  m.def(
      "recorder_attach",
      [](const c10::intrusive_ptr<::c10d::ProcessGroup>& group, int64_t hook, const std::string& name,
         const std::string& description, std::vector<uint32_t> ranks, bool is_late) {
        recorder::GroupInfo info;
        info.name = name;
        info.description = description;
        info.ranks = std::move(ranks);
        info.rank = group->getRank();
        info.size = group->getSize();
        info.is_late = is_late;
        auto recorded = std::make_shared<RecordedGroup>(need_ring(), info, recorded_devices(*group));
        recorded->attach_to(*group, hook);
      },
      py::arg("group"), py::arg("hook"), py::arg("name"), py::arg("description"), py::arg("ranks"), py::arg("is_late"));
  m.def(
      "recorder_detach",
      [](const c10::intrusive_ptr<::c10d::ProcessGroup>& group, int64_t hook) {
        RecordedGroup::detach_from(*group, hook);
      },
      py::arg("group"), py::arg("hook"));
#endif
}

}  // namespace pycomms::c10d_backend
