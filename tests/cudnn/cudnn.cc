// SPDX-License-Identifier: Apache-2.0
#include "cudnn/cudnn.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/results.h"
#include "cudnn/objects.h"

namespace {

constexpr int kDefaultVersion = 92800;
constexpr size_t kHandleBytes = 4096;
constexpr int kCrossCorrelation = 1;
constexpr int kNotPropagateNan = 0;

}  // namespace

using namespace fake_driver;  // NOLINT: what follows is C

size_t cudnnGetVersion() {
  const char* version = std::getenv("TVM_IOS_FAKE_CUDNN_VERSION");
  return version == nullptr ? kDefaultVersion : static_cast<size_t>(std::atoi(version));
}

const char* cudnnGetErrorString(int status) {
  return status == kUnsupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OF_FAKE_DRIVER";
}

void cudnnGetLastErrorString(char* text, size_t size) {
  const size_t length = std::min(size - 1, LastError().size());
  std::memcpy(text, LastError().data(), length);
  text[length] = '\0';
}

// Handles

int cudnnCreate(Object* handle) {
  const int device = CurrentDevice();
  if (device < 0) return Misuse("a handle without a context");
  void* memory = nullptr;
  if (cuMemAlloc_v2(&memory, kHandleBytes) != kSuccess) return kNoDeviceMemory;
  auto context = std::make_unique<Context>();
  context->device = device;
  context->memory = memory;
  return All<Context>().Create(handle, std::move(context));
}

int cudnnDestroy(Object handle) {
  const auto context = All<Context>().Remove(handle);
  if (context == nullptr) return Misuse("no handle to destroy");
  return cuMemFree_v2(context->memory) == kSuccess ? kOk : kDriverFailed;
}

int cudnnSetStream(Object handle, Handle stream) {
  Use use(handle);
  if (use.status() == kOk) use.context().stream = stream;
  return use.status();
}

// Descriptors

int cudnnCreateTensorDescriptor(Object* tensor) {
  return All<Tensor4d>().Create(tensor, std::make_unique<Tensor4d>());
}

int cudnnDestroyTensorDescriptor(Object tensor) { return Destroy<Tensor4d>(tensor); }

int cudnnSetTensor4dDescriptor(Object tensor, int format, int type, int n, int c, int h, int w) {
  return Set<Tensor4d>(tensor, [&](Tensor4d& of) { of = {type, format, {n, c, h, w}}; });
}

int cudnnCreateFilterDescriptor(Object* filter) {
  return All<Filter>().Create(filter, std::make_unique<Filter>());
}

int cudnnDestroyFilterDescriptor(Object filter) { return Destroy<Filter>(filter); }

int cudnnSetFilter4dDescriptor(Object filter, int type, int format, int k, int c, int h, int w) {
  return Set<Filter>(filter, [&](Filter& of) { of = {{type, format, {k, c, h, w}}}; });
}

int cudnnCreateConvolutionDescriptor(Object* convolution) {
  return All<ConvolutionOf>().Create(convolution, std::make_unique<ConvolutionOf>());
}

int cudnnDestroyConvolutionDescriptor(Object convolution) {
  return Destroy<ConvolutionOf>(convolution);
}

int cudnnSetConvolution2dDescriptor(Object convolution, int pad_h, int pad_w, int stride_h,
                                    int stride_w, int dilation_h, int dilation_w, int mode,
                                    int type) {
  if (mode != kCrossCorrelation || type != kFloat) return Misuse("another convolution");
  return Set<ConvolutionOf>(convolution, [&](ConvolutionOf& of) {
    of.windows = {{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1};
  });
}

int cudnnSetConvolutionGroupCount(Object convolution, int groups) {
  return Set<ConvolutionOf>(convolution, [&](ConvolutionOf& of) { of.windows.groups = groups; });
}

int cudnnSetConvolutionMathType(Object convolution, int math) {
  return Set<ConvolutionOf>(convolution, [&](ConvolutionOf& of) { of.math = math; });
}

int cudnnCreateActivationDescriptor(Object* activation) {
  return All<ActivationOf>().Create(activation, std::make_unique<ActivationOf>());
}

int cudnnDestroyActivationDescriptor(Object activation) {
  return Destroy<ActivationOf>(activation);
}

int cudnnSetActivationDescriptor(Object activation, int mode, int nan, double /*coefficient*/) {
  if (nan != kNotPropagateNan) return Misuse("an activation that passes NaN on");
  return Set<ActivationOf>(activation, [&](ActivationOf& of) { of.mode = mode; });
}

// Convolutions

int cudnnGetConvolutionForwardAlgorithmMaxCount(Object /*handle*/, int* count) {
  *count = 2 * kNumAlgorithms;
  return kOk;
}

int cudnnGetConvolutionForwardAlgorithm_v7(Object handle, Object x, Object w, Object convolution,
                                           Object y, int wanted, int* found,
                                           AlgorithmPerformance* performance) {
  Use use(handle);
  if (use.status() != kOk) return use.status();
  const Problem problem(x, w, convolution, y);
  if (const int wrong = problem.Check()) return wrong;
  const int math = problem.convolution->math;
  std::vector<AlgorithmPerformance> all{
      {kImplicitPrecompGemm, kOk, 1, 0, 1, kConversion, {}},  // float32 as if it were float16
      {kImplicitPrecompGemm, kOk, 1, 0, 1, math, {}},
      {kGemm, kOk, 1, 0, 1, math, {}},  // which this problem perhaps has not, as it turns out
      {kImplicitGemm, kOk, 1, 0, 0, math, {}},  // with results that differ from run to run
      {kImplicitGemm, kOk, 2, 0, 1, math, {}},
      {kImplicitPrecompGemm, kOk, 3, 0, 1, kDefault, {}},
  };
  for (int other = kGemm + 1; other < kNumAlgorithms; ++other) {
    all.push_back({other, kUnsupported, -1, 0, 1, math, {}});
  }
  *found = std::min(wanted, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *found, performance);
  return kOk;
}

int cudnnGetConvolutionForwardWorkspaceSize(Object handle, Object x, Object w, Object convolution,
                                            Object y, int algorithm, size_t* bytes) {
  Use use(handle);
  if (use.status() != kOk) return use.status();
  const Problem problem(x, w, convolution, y);
  if (const int wrong = problem.Check()) return wrong;
  if (!problem.Has(algorithm)) return kUnsupported;
  *bytes = problem.Workspace(algorithm);
  return kOk;
}

int cudnnConvolutionForward(Object handle, const float* alpha, Object x, const void* x_data,
                            Object w, const void* w_data, Object convolution, int algorithm,
                            void* workspace, size_t workspace_bytes, const float* beta, Object y,
                            void* y_data) {
  const Problem problem(x, w, convolution, y);
  if (const int wrong = problem.Check()) return wrong;
  if (*alpha != 1 || *beta != 0) return Misuse("factors that are not computed here");
  return Run(handle, problem, algorithm, workspace, workspace_bytes,
             {x_data, w_data, nullptr, nullptr, y_data}, 0, false);
}

int cudnnConvolutionBiasActivationForward(Object handle, const float* alpha, Object x,
                                          const void* x_data, Object w, const void* w_data,
                                          Object convolution, int algorithm, void* workspace,
                                          size_t workspace_bytes, const float* alpha2, Object z,
                                          const void* z_data, Object bias, const void* bias_data,
                                          Object activation, Object y, void* y_data) {
  const Problem problem(x, w, convolution, y);
  if (const int wrong = problem.Check()) return wrong;
  const Tensor4d* residual = All<Tensor4d>().Find(z);
  const Tensor4d* addend = All<Tensor4d>().Find(bias);
  const ActivationOf* last = All<ActivationOf>().Find(activation);
  if (residual == nullptr || addend == nullptr || last == nullptr) {
    return Misuse("a descriptor that is none");
  }
  const std::array<int, 4> channels{1, problem.y->size[1], 1, 1};
  if (!(*residual == *problem.y) || addend->type != problem.y->type || addend->size != channels) {
    return Misuse("a bias or a residual that does not fit");
  }
  if (*alpha != 1 || z_data == nullptr || bias_data == nullptr) {
    return Misuse("a factor or a tensor that does not fit");
  }
  if (last->mode == kIdentity && algorithm != kImplicitPrecompGemm) return kUnsupported;
  if (last->mode != kIdentity && last->mode != kRelu) return kUnsupported;
  return Run(handle, problem, algorithm, workspace, workspace_bytes,
             {x_data, w_data, z_data, bias_data, y_data}, *alpha2, last->mode == kRelu);
}
