#!/bin/sh
# Law: when this script ends well, the Java that Spark would start is version 17 or newer.
#
# Spark starts $JAVA_HOME/bin/java where JAVA_HOME is set, and the `java` on the PATH elsewhere;
# the same rule is kept here. A missing Java is the one thing that is installed outside .venv, and
# only by root on a system with apt.
set -eu

needed=17
packages="openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless"
how="install a headless Java runtime of version $needed or newer (Debian, Ubuntu:\
 openjdk-17-jre-headless; Fedora: java-21-openjdk-headless; macOS: openjdk@17 from Homebrew)\
 or point JAVA_HOME at one"

stop() {
    echo "tidegate: $*" >&2
    exit 1
}

# The major version of the Java that Spark would start, or 0: "17.0.15" is 17, "1.8.0_292" is 8.
java_version() {
    if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; else java=java; fi
    version=$("$java" -version 2>&1 |
        sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1) || version=0
    echo "${version:-0}"
}

java_is_missing() {
    [ "$(java_version)" -lt "$needed" ]
}

install_java() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq -o DPkg::Lock::Timeout=120 update >&2 || true
    for package in $packages; do
        echo "tidegate: Java $needed or newer is missing; installing $package with apt-get."
        apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
            install -y --no-install-recommends "$package" >&2 && return 0
    done
    return 1
}

java_is_missing || exit 0
# Spark would keep to a wrong JAVA_HOME whatever else is installed.
[ -z "${JAVA_HOME:-}" ] ||
    stop "JAVA_HOME is '$JAVA_HOME', which holds no Java $needed or newer; correct it or unset it."
[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 ||
    stop "Java $needed or newer was not found, and Spark runs on it; $how."
install_java || stop "apt-get could not install Java $needed or newer; $how."
java_is_missing &&
    stop "after the installation the java on the PATH is still not $needed or newer;" \
        "point JAVA_HOME at one that is."
exit 0
