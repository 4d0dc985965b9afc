// The guard of the device type CUDA, which PyTorch's CPU build lacks: what says which device and stream are current.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

c10::DeviceIndex current = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override { return c10::Device(c10::DeviceType::CUDA, current); }
    void setDevice(c10::Device device) const override { current = device.index(); }
    void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
    c10::Stream getStream(c10::Device device) const override {
        return c10::Stream(c10::Stream::DEFAULT, device);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
    c10::DeviceIndex deviceCount() const noexcept override { return 2; }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

}  // namespace

// -1 asks.
extern "C" int fake_cuda_device(int wanted) {
    const int before = current;
    if (wanted >= 0) current = static_cast<c10::DeviceIndex>(wanted);
    return before;
}
