"""vram.h for Conan 2: `conan create tools/packages/conan` builds the package of the tree that this file is in."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class VramConan(ConanFile):
    name = "vram"
    description = "How many bytes a neural network needs on a device, at compile time and before a run"
    license = ("Unlicense", "MIT-0")
    topics = ("gpu", "memory", "pytorch", "cuda", "embedded", "header")
    package_type = "static-library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"fPIC": [True, False]}
    default_options = {"fPIC": True}

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._tree, "vram.h"))
        self.version = re.search(r'^#define VRAM_VERSION "(.*)"$', header, re.MULTILINE).group(1)

    def export_sources(self):
        for pattern in ("vram.h", "vram_cuda.h", "LICENSE", "tools/vram_impl.c", "tools/library.c",
                        "tools/install/*.in", "tools/packages/cmake/CMakeLists.txt"):
            copy(self, pattern, self._tree, self.export_sources_folder)

    def validate(self):
        if self.settings.os == "Windows":
            raise ConanInvalidConfiguration("libvram.a has vram_cuda.h's implementation, which needs POSIX threads")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeToolchain(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="tools/packages/cmake")
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan makes these itself, from what follows
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "vram")
        headers = self.cpp_info.components["headers"]
        headers.set_property("cmake_target_name", "vram::vram")
        headers.set_property("pkg_config_name", "vram-headers")
        headers.bindirs = []
        headers.libdirs = []
        static = self.cpp_info.components["static"]
        static.set_property("cmake_target_name", "vram::static")
        static.set_property("pkg_config_name", "vram")
        static.libs = ["vram"]
        static.requires = ["headers"]
        if self.settings.os in ("Linux", "FreeBSD"):
            static.system_libs = ["dl", "pthread"] if self.settings.os == "Linux" else ["pthread"]
