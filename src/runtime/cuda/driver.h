// SPDX-License-Identifier: Apache-2.0
/*!
 * \file driver.h
 * \brief The functions of the CUDA driver that stages need, found at run time.
 *
 * Neither a header nor a library of CUDA is needed to build or to load this library: libcuda is
 * opened when a stage first needs it. Its streams and events are those of the CUDA runtime that
 * TVM's kernels use.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_DRIVER_H_
#define TVM_IOS_RUNTIME_CUDA_DRIVER_H_

#include <cstddef>
#include <string>

#include "runtime/cuda/library.h"

namespace tvm_ios {
namespace cuda {

// As in cuda.h.
using Result = int;
using Device = int;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;

inline constexpr Result kSuccess = 0;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;
inline constexpr int kNotCapturing = 0;

/*! \brief The calls that a capture forbids, on other threads and on this one. */
enum CaptureMode : int { kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

enum DeviceAttribute : int {
  kMultiprocessors = 16,
  kL2CacheBytes = 38,
  kMultiprocessorThreads = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMultiprocessorSharedBytes = 81,
  kMultiprocessorRegisters = 82,
  kRequestedSharedBytes = 97,
  kReservedSharedBytes = 111,
};

/*! \brief The driver's descriptions of its results. */
struct ResultNames {
  Result (*name)(Result result, const char** text);
  Result (*description)(Result result, const char** text);

  /*! \throw DeviceError with a message for the user. */
  [[noreturn]] void Throw(const char* call, Result result) const;
};

/*! \brief One function of the driver. */
template <typename... Args>
using DriverCall = LibraryCall<ResultNames, Args...>;

/*! \brief The loaded and initialised driver; its members are named as in cuda.h. */
class Driver {
 public:
  /*!
   * \brief Return the driver of this process, loaded by the first call; thread-safe.
   * \throw DeviceError if there is no driver or no device, or if the driver is older than CUDA 13.
   */
  static const Driver& Get();

  /*!
   * \brief Load a driver.
   * \param library The file, as for dlopen.
   * \throw DeviceError as Get does.
   */
  explicit Driver(const std::string& library);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /*! \brief The newest CUDA that the driver supports: 1000 * major + 10 * minor. */
  int version() const { return version_; }
  int num_devices() const { return num_devices_; }

  DriverCall<Device*, int> cuDeviceGet;
  DriverCall<char*, int, Device> cuDeviceGetName;
  DriverCall<int*, int, Device> cuDeviceGetAttribute;
  DriverCall<size_t*, Device> cuDeviceTotalMem;
  DriverCall<Context*, Device> cuDevicePrimaryCtxRetain;
  DriverCall<Context> cuCtxPushCurrent;
  DriverCall<Context*> cuCtxPopCurrent;
  DriverCall<Stream*, unsigned> cuStreamCreate;
  DriverCall<Stream> cuStreamDestroy;
  DriverCall<Stream> cuStreamSynchronize;
  DriverCall<Stream, Event, unsigned> cuStreamWaitEvent;
  DriverCall<Stream, int*> cuStreamIsCapturing;
  DriverCall<Stream, int> cuStreamBeginCapture;
  DriverCall<Stream, Graph*> cuStreamEndCapture;
  DriverCall<int*> cuThreadExchangeStreamCaptureMode;
  DriverCall<void**, size_t> cuMemAlloc;
  DriverCall<void*> cuMemFree;
  DriverCall<void*, const void*, size_t, Stream> cuMemcpyAsync;
  DriverCall<void*, unsigned char, size_t, Stream> cuMemsetD8Async;
  DriverCall<Event*, unsigned> cuEventCreate;
  DriverCall<Event> cuEventDestroy;
  DriverCall<Event, Stream> cuEventRecord;
  DriverCall<Event, Stream, unsigned> cuEventRecordWithFlags;
  DriverCall<Event> cuEventSynchronize;
  DriverCall<float*, Event, Event> cuEventElapsedTime;
  DriverCall<GraphExec*, Graph, unsigned long long> cuGraphInstantiateWithFlags;
  DriverCall<GraphExec, Stream> cuGraphLaunch;
  DriverCall<GraphExec> cuGraphExecDestroy;
  DriverCall<Graph> cuGraphDestroy;

 private:
  void Initialize();
  void BindDevices();
  void BindMemory();
  void BindStreams();
  void BindGraphs();
  void* Find(const char* name) const;
  /*! \param symbol If given, the name with a version, to which cuda.h maps the other one. */
  template <typename... Args>
  void Bind(const char* name, DriverCall<Args...>* call, const char* symbol = nullptr) const;

  LibraryHandle library_;
  ResultNames names_{};
  int version_{0};
  int num_devices_{0};
};

/*! \brief Return a version of CUDA, for example 13.0, from the driver's number. */
std::string VersionText(int version);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_DRIVER_H_
