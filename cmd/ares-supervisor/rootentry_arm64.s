#include "textflag.h"

DATA ·rootEntryAt+0(SB)/8, $·rootEntry(SB)
GLOBL ·rootEntryAt(SB), RODATA|NOPTR, $8

// rootEntry is where the program in a container with Container.Root begins; see the file userns.go. The process has one thread until it
// jumps to the beginning of the Go runtime. argc is at 0(RSP), and argv[1] at 16(RSP).
TEXT ·rootEntry(SB), NOSPLIT|NOFRAME, $0
	MOVD	0(RSP), R0
	CMP	$2, R0
	BNE	begin
	MOVD	16(RSP), R1
	MOVBU	(R1), R2
	CMP	$98, R2 // 'b': seat.BesideRoot
	BEQ	join
	CMP	$114, R2 // 'r': seat.InsideRoot
	BNE	begin
	MOVD	$0x10000000, R0 // unshare(CLONE_NEWUSER)
	MOVD	$97, R8
	SVC
	B	keep
join:
	MOVD	$5, R0 // setns(seat.InsideUserFD, CLONE_NEWUSER)
	MOVD	$0x10000000, R1
	MOVD	$268, R8
	SVC
keep:
	MOVD	R0, ·rootEntered(SB)
begin:
	B	_rt0_arm64_linux(SB)
