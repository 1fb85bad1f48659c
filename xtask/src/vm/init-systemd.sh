#!/bin/busybox sh
# Boots the Debian that was taken along, with systemd; the command is a unit of it, run when all others are.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /new
mount -t tmpfs root /new
cp -a /debian/. /new/
cp -a /bin/scx_prorata /bin/prorata /bin/xtask /new/usr/bin/
for LIBRARY in /lib/x86_64-linux-gnu/*; do
    [ -e /new/usr$LIBRARY ] || cp $LIBRARY /new/usr$LIBRARY
done
cp /command /new/command
cd /new/etc
cp ../usr/share/base-passwd/passwd.master passwd
cp ../usr/share/base-passwd/group.master group
echo "user:x:1000:1000::/tmp:/bin/sh" >> passwd
echo "user:x:1000:" >> group
echo 0123456789abcdef0123456789abcdef > machine-id
echo vm > hostname
# What configuring the packages would have written.
mkdir -p pam.d systemd/system/multi-user.target.wants
printf 'account required pam_permit.so\nsession required pam_permit.so\nsession optional pam_systemd.so\n' \
    > pam.d/systemd-user
for KIND in auth account password session; do echo "$KIND required pam_permit.so"; done > pam.d/other
ln -s /usr/lib/systemd/system/multi-user.target systemd/system/default.target
# The machine has neither the device that this waits for nor modules.
for UNIT in serial-getty@ttyS0 getty@tty1 systemd-modules-load; do
    ln -s /dev/null systemd/system/$UNIT.service
done
cat > systemd/system/command.service <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/sh -c "stty -F /dev/ttyS1 raw; exec >/dev/ttyS1 2>&1; cd /tmp; sh /command; echo EXIT_MARK\$\$?; poweroff -ff"
UNIT
ln -s ../command.service systemd/system/multi-user.target.wants/command.service
exec switch_root /new /usr/lib/systemd/systemd --log-target=console --log-level=warning
